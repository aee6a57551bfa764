"""Outgoing webhooks: signatures, events that can be chosen, addresses and retries."""
