"""What the simulated GitHub and the simulated Stripe share: HTTP over real sockets, faults, settings, webhooks."""
