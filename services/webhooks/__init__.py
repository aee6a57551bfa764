"""Webhook deliveries from GitHub: verified, stored once, and turned into requests to refresh."""
