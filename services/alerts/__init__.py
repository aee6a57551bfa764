"""Alerts: what needs attention in an organisation is opened and resolved here."""
