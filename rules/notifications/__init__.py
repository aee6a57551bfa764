"""Notifications: what people and other systems are notified of, and the pages that notifications link to."""
