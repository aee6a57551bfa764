"""Webhooks: their bodies, and sending them."""
