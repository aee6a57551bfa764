"""The events that webhooks can be sent: public audit actions, and windows that are about to begin.

A choice is a list of events, of families (`freeze.*`), or `*` for all. A family or `*` includes what is added to it
later.
"""

from collections.abc import Collection, Iterator, Mapping

from rules.audit.actions import PUBLIC_ACTIONS
from rules.notifications.kinds import UPCOMING

ALL = "*"
TEST = "webhook.test"
"""Sent only on request, whatever an endpoint has chosen."""

FAMILIES: Mapping[str, str] = {
    "api_key": "API keys",
    "branch": "watched branches",
    "enforcement": "the enforcement of freezes",
    "exception": "exceptions",
    "freeze": "freezes",
    "installation": "installations of the GitHub App",
    "member": "members",
    "occurrence": "windows of schedules",
    "organization": "the organisation",
    "repository": "repositories",
    "ruleset": "rulesets at GitHub",
    "schedule": "schedules",
    "window": "windows that are about to begin",
}
"""The families that are sent, with what they are about."""

WITHHELD: Mapping[str, str] = {
    "audit": "What an operator removes is older than every plan shows, and the audit log says so.",
    "billing": "Payments concern those who pay, and the payment provider informs them.",
    "calendar_feed": "The addresses of calendars are secrets of those who created them.",
    "connection": "Which clients act for a person concerns that person and the administrators.",
    "device": "How a person signs in concerns that person.",
    "exception_rule": "Rules are for administrators to see; what a rule lets in is sent as an exception.",
    "invitation": "Invitations hold e-mail addresses of people who have not agreed to anything.",
    "organization.deleted": "Webhooks end with their organisation.",
    "service": "What operators do with the database concerns every organisation; what needs attention says it.",
    "session": "How a person signs in concerns that person.",
    "slack": "How Slack is connected, and to whom, concerns its workspace and those people.",
    "support": "Sessions of support are for the eyes of the organisation's people.",
    "user": "A person's account concerns that person.",
    "webhook": "An endpoint does not learn of others, and causes no events for itself.",
}
"""The families and actions that are never sent, with the reason; the audit log has them for those who may read it."""

_UPCOMING_MEANING = "Planned windows begin soon: as many minutes before as the webhook says."


def list_events() -> Iterator[tuple[str, str]]:
    """Yield what can be chosen, with its meaning: `*`, the families, and every event in alphabetical order."""
    yield ALL, "Everything in this list, also what is added later."
    for family, about in FAMILIES.items():
        yield f"{family}.*", f"Everything about {about}, also what is added later."
    yield from sorted({**PUBLIC_ACTIONS, UPCOMING: _UPCOMING_MEANING}.items())


def unknown_events(chosen: Collection[str]) -> list[int]:
    """Return the positions of what cannot be chosen."""
    known = {event for event, _ in list_events()}
    return [position for position, event in enumerate(chosen) if event not in known]


def is_chosen(event: str, chosen: Collection[str]) -> bool:
    """True if an event is sent to those who have chosen these."""
    return (event == UPCOMING or event in PUBLIC_ACTIONS) and (
        ALL in chosen or event in chosen or f"{_family(event)}.*" in chosen
    )


def _family(event: str) -> str:
    return event.partition(".")[0]
