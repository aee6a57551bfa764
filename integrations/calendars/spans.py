"""Start and end of a calendar event (RFC 5545, 3.6.1)."""

from datetime import UTC, date, datetime, timedelta

from icalendar import Event

from integrations.calendars.rules import UnusableError
from integrations.calendars.time_zones import unknown_zone

Moment = date | datetime
"""A start or an end: a day, or an instant, or a local time without a zone."""

_READ = {"DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "EXRULE", "RECURRENCE-ID"}
_DAY = timedelta(days=1)
_FIRST_YEAR, _LAST_YEAR = 1900, 2099


def span_of(event: Event) -> tuple[Moment, Moment]:
    """Return start and end: two days, the last excluded, or two instants. Raise UnusableError."""
    wrong = [name for name, _error in event.errors if name in _READ or name is None]
    if wrong:
        raise UnusableError("unreadable", f"has a {wrong[0] or 'line'} that cannot be parsed")
    start = _moment(event, "DTSTART")
    if start is None:
        raise UnusableError("unreadable", "has no DTSTART")
    _require_in_range(start)
    if unknown := unknown_zone(event):
        message = f"is in an unknown time zone, {unknown!r}; timezones in the request can name its IANA zone"
        raise UnusableError("unknown_timezone", message)
    end = _end(event, start)
    if isinstance(start, datetime) != isinstance(end, datetime):
        raise UnusableError("unreadable", "has a date and a time as its start and end")
    if isinstance(start, datetime) and isinstance(end, datetime) and (start.tzinfo is None) != (end.tzinfo is None):
        raise UnusableError("unreadable", "has a time zone only for its start or only for its end")
    if end < start:
        raise UnusableError("unreadable", "ends before it starts")
    _require_in_range(end)
    return start, end


def _require_in_range(moment: Moment) -> None:
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise UnusableError("out_of_range", f"is not between {_FIRST_YEAR} and {_LAST_YEAR}")


def _end(event: Event, start: Moment) -> Moment:
    end = _moment(event, "DTEND")
    if end is not None:
        return end
    length = getattr(event.get("DURATION"), "dt", None)
    if length is None:
        return start if isinstance(start, datetime) else start + _DAY
    if not isinstance(length, timedelta) or (not isinstance(start, datetime) and length % _DAY):
        raise UnusableError("unreadable", "has a DURATION that does not fit its DTSTART")
    try:
        return _later(start, length, repeats="RRULE" in event or "RDATE" in event)
    except OverflowError:
        raise UnusableError("too_long", "has a DURATION that is too long") from None


def _later(start: Moment, length: timedelta, *, repeats: bool) -> Moment:
    """Return the end of an event: days are days of the calendar, hours are as long as they are (RFC 5545, 3.3.6).

    A repeated event has the same local times also on days on which clocks change.
    """
    if repeats or not isinstance(start, datetime) or start.tzinfo is None:
        return start + length
    days, hours = divmod(length, _DAY)
    return ((start + days * _DAY).astimezone(UTC) + hours).astimezone(start.tzinfo)


def _moment(event: Event, name: str) -> Moment | None:
    found = event.get(name)
    if found is None:
        return None
    if isinstance(found, list):
        raise UnusableError("unreadable", f"has more than one {name}")
    moment = found.dt
    if not isinstance(moment, date):
        raise UnusableError("unreadable", f"has a {name} that is neither a date nor a time")
    return moment
