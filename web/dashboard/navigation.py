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
HELP = {
    web_addresses.HOME: "dashboard",
    web_addresses.FREEZES: "freezes",
    web_addresses.CALENDAR: "schedules",
    web_addresses.PULL_REQUEST: "exceptions",
    web_addresses.EXCEPTIONS: "exceptions",
    web_addresses.REPOSITORIES: "enforcement",
    web_addresses.ATTENTION: "overview",
    web_addresses.AUDIT: "audit",
    web_addresses.SETTINGS: "people-and-keys",
}
"""The chapter of the guide about each section."""
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
