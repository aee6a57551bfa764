"""What a calendar shows of freezes and windows: when an event ends, how often it has changed, and its texts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

from rules.access.permissions import shown_actor
from rules.freezes.scope_words import describe_scope
from rules.plain_text import one_line, without_links

PAST = timedelta(days=30)
"""How long ended ones are shown."""
GONE = timedelta(days=14)
"""How long windows are shown that do not take place, from when that was known."""
MAX_EVENTS = 1000
MAX_NAME_LENGTH = 120
MAX_REASON_LENGTH = 1000
MAX_SCOPE_LENGTH = 300
_DAY = timedelta(days=1)
State = Literal["frozen", "skipped", "cancelled", "moved", "missed"]
_BRACKETS = str.maketrans({"<": "\u2039", ">": "\u203a"})


@dataclass(frozen=True, slots=True)
class Texts:
    """What people read of an event, each in one line."""

    name: str
    reason: str
    scope: str
    by: str | None
    """`Planned by Ada`, `Started by Nights (schedule), planned by Ada`; None if the system did."""

    @classmethod
    def of(cls, name: str, reason: str, scope: Mapping[str, Any], actors: Mapping[str, Mapping[str, Any]]) -> "Texts":
        """Return the texts of a freeze or schedule; the actors are as they are stored, by what they did: `started`."""
        named = {verb: _shown_actor(by) for verb, by in actors.items() if by.get("type") != "system"}
        by = ", ".join(f"{verb} by {actor}" for verb, actor in named.items())
        shown = shown_text(describe_scope(scope), MAX_SCOPE_LENGTH)
        texts = (shown_text(name, MAX_NAME_LENGTH), shown_text(reason, MAX_REASON_LENGTH), shown)
        return cls(*texts, by[:1].upper() + by[1:] or None)


@dataclass(frozen=True, slots=True)
class CalendarEvent:
    """A freeze, or a window of a schedule, as a calendar shows it."""

    id: str
    """Stays the same from the plan to the end."""
    page: str
    """Address, below the web origin, of the page of the freeze or of the schedule."""
    texts: Texts
    starts_at: datetime
    ends_at: datetime
    state: State
    """What became of it: if not `frozen`, it does not take place."""
    is_open: bool
    """True if the freeze has no planned end yet; `ends_at` is then the end of the day."""
    sequence: int
    """Rises whenever the event changes."""
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class Changes:
    """How often an event was changed, and when last."""

    count: int
    latest: datetime


def event_of_window(
    event_id: str,
    page: str,
    texts: Texts,
    starts_at: datetime,
    ends_at: datetime,
    *,
    state: State,
    changes: Changes,
) -> CalendarEvent:
    """Return the event of a window that has started no freeze."""
    return CalendarEvent(event_id, page, texts, starts_at, ends_at, state, False, changes.count, changes.latest)


def event_of_freeze(  # noqa: PLR0913 - a freeze has this many facts, and one caller passes them
    event_id: str,
    page: str,
    texts: Texts,
    started_at: datetime,
    ends_at: datetime | None,
    *,
    ended_at: datetime | None,
    changes: Changes,
    now: datetime,
    zone: ZoneInfo,
) -> CalendarEvent:
    """Return the event of a freeze that has started.

    Without a planned end it is shown until the end of today in a zone, which moves on each day. So the sequence counts
    the days that it has lasted as well: it never falls, whatever becomes of the end.
    """
    over_at = ended_at or (ends_at if ends_at is not None and ends_at <= now else None)
    until = over_at or now
    days = max((until.astimezone(zone).date() - started_at.astimezone(zone).date()).days, 0)
    changed_at = changes.latest
    shown_end = over_at or ends_at
    is_open = shown_end is None
    if shown_end is None:
        midnight = datetime.combine(now.astimezone(zone).date(), time(), zone)
        shown_end, changed_at = (midnight + _DAY).astimezone(UTC), max(changed_at, midnight.astimezone(UTC))
    return CalendarEvent(
        event_id, page, texts, started_at, shown_end, "frozen", is_open, changes.count + days, changed_at
    )


def _shown_actor(actor: Mapping[str, Any]) -> str:
    """Return the name of an actor; it is shortened before what the actor is."""
    return shown_actor({**actor, "name": shown_text(str(actor["name"]), MAX_NAME_LENGTH)})


def shown_text(text: str, length: int) -> str:
    """Return what a person typed as one line without markup and links: some calendars interpret HTML and addresses."""
    return without_links(one_line(text, length)).translate(_BRACKETS)


def within_limit(events: list[CalendarEvent], now: datetime, limit: int) -> list[CalendarEvent]:
    """Return at most so many by start: what is to come first, the nearest first, then the latest of the past."""
    ahead = sorted((one for one in events if one.ends_at > now), key=_position)[:limit]
    past = sorted((one for one in events if one.ends_at <= now), key=_position)
    left = limit - len(ahead)
    return (past[-left:] if left else []) + ahead


def _position(event: CalendarEvent) -> tuple[datetime, str]:
    return event.starts_at, event.id
