"""What a calendar shows of freezes and windows: when an event ends, how often it has changed, and its texts."""

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from rules.plain_text import one_line, without_links

PAST = timedelta(days=30)
"""How long ended ones are shown."""
MAX_EVENTS = 1000
MAX_NAME_LENGTH = 120
MAX_REASON_LENGTH = 1000
_DAY = timedelta(days=1)
_BRACKETS = str.maketrans({"<": "\u2039", ">": "\u203a"})


@dataclass(frozen=True, slots=True)
class CalendarEvent:
    """A freeze, or a window of a schedule, as a calendar shows it."""

    id: str
    """Stays the same from the plan to the end."""
    page: str
    """Address, below the web origin, of the page of the freeze or of the schedule."""
    name: str
    reason: str
    starts_at: datetime
    ends_at: datetime
    cancelled: bool
    """The window was skipped, taken from the plan, or passed without a freeze."""
    sequence: int
    """Rises whenever the event changes."""
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class Changes:
    """How often an event was changed, and when last."""

    count: int
    latest: datetime


def event_of_window(  # noqa: PLR0913 - a window has this many facts, and one caller passes them
    event_id: str,
    page: str,
    name: str,
    reason: str,
    starts_at: datetime,
    ends_at: datetime,
    *,
    cancelled: bool,
    changes: Changes,
) -> CalendarEvent:
    """Return the event of a window that has started no freeze."""
    texts = shown_text(name, MAX_NAME_LENGTH), shown_text(reason, MAX_REASON_LENGTH)
    return CalendarEvent(event_id, page, *texts, starts_at, ends_at, cancelled, changes.count, changes.latest)


def event_of_freeze(  # noqa: PLR0913 - a freeze has this many facts, and one caller passes them
    event_id: str,
    page: str,
    name: str,
    reason: str,
    started_at: datetime,
    ends_at: datetime | None,
    *,
    ended_at: datetime | None,
    changes: Changes,
    now: datetime,
) -> CalendarEvent:
    """Return the event of a freeze that has started.

    Without a planned end it is shown until the end of the next day (UTC), which moves on each day. So the sequence
    counts the days that it has lasted as well: it never falls, whatever becomes of the end.
    """
    over_at = ended_at or (ends_at if ends_at is not None and ends_at <= now else None)
    until = over_at or now
    days = max((until.astimezone(UTC).date() - started_at.astimezone(UTC).date()).days, 0)
    changed_at = changes.latest
    shown_end = over_at or ends_at
    if shown_end is None:
        midnight = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
        shown_end, changed_at = midnight + 2 * _DAY, max(changed_at, midnight)
    texts = shown_text(name, MAX_NAME_LENGTH), shown_text(reason, MAX_REASON_LENGTH)
    return CalendarEvent(event_id, page, *texts, started_at, shown_end, False, changes.count + days, changed_at)


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
