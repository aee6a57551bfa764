"""The sections of the dashboard and the pages of its settings, as their navigation shows them."""

from typing import NamedTuple

from rules import web_addresses


class Section(NamedTuple):
    """One entry of the navigation."""

    address: str
    label: str
    key: str
    """The key that opens it after `g`."""


SECTIONS = (
    Section(web_addresses.HOME, "Overview", "o"),
    Section(web_addresses.FREEZES, "Freezes", "f"),
    Section(web_addresses.CALENDAR, "Calendar", "c"),
    Section(web_addresses.PULL_REQUEST, "Pull requests", "p"),
    Section(web_addresses.EXCEPTIONS, "Exceptions", "e"),
    Section(web_addresses.REPOSITORIES, "Repositories", "r"),
    Section(web_addresses.ATTENTION, "Attention", "t"),
    Section(web_addresses.AUDIT, "Audit", "a"),
    Section(web_addresses.SETTINGS, "Settings", "s"),
)
SETTINGS = (
    (web_addresses.SETTINGS, "Organisation"),
    (web_addresses.MEMBERS, "Members"),
    (web_addresses.API_KEYS, "API keys"),
    (web_addresses.CALENDAR_FEEDS, "Calendar feeds"),
    (web_addresses.WEBHOOKS, "Webhooks"),
    (web_addresses.SLACK, "Slack"),
    (web_addresses.BILLING, "Plan"),
    (web_addresses.CONNECTIONS, "Clients"),
    (web_addresses.NOTIFICATIONS, "Notifications"),
    (web_addresses.ACCOUNT, "Your account"),
)
"""Addresses and labels of the pages of the settings."""
