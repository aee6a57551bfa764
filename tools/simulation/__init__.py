"""What the simulated GitHub, Stripe and Slack share: HTTP over real sockets, faults, settings, webhooks."""
