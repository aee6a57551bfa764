"""When an event of a calendar begins and ends: RFC 5545, 3.6.1."""

from datetime import date, datetime, timedelta

from icalendar import Event

from integrations.calendars.rules import UnusableError

End = date | datetime

_READ = {"DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "EXRULE", "RECURRENCE-ID"}
_FIRST_YEAR, _LAST_YEAR = 1900, 2099


def span_of(event: Event) -> tuple[End, End]:
    """Return start and end: two days, the last excluded, or two instants; raises UnusableError."""
    wrong = [name for name, _error in event.errors if name in _READ or name is None]
    if wrong:
        raise UnusableError("unreadable", f"has a {wrong[0] or 'line'} that cannot be read")
    start = _moment(event, "DTSTART")
    if start is None:
        raise UnusableError("unreadable", "has no DTSTART")
    _require_near(start)
    end = _end(event, start)
    if isinstance(start, datetime) != isinstance(end, datetime):
        raise UnusableError("unreadable", "begins with a day and ends with a time, or the other way round")
    if isinstance(start, datetime) and isinstance(end, datetime) and (start.tzinfo is None) != (end.tzinfo is None):
        raise UnusableError("unreadable", "begins in a zone and ends in none, or the other way round")
    if end < start:
        raise UnusableError("unreadable", "ends before it starts")
    _require_near(end)
    return start, end


def _require_near(moment: End) -> None:
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise UnusableError("out_of_range", f"does not lie between {_FIRST_YEAR} and {_LAST_YEAR}")


def _end(event: Event, start: End) -> End:
    end = _moment(event, "DTEND")
    if end is not None:
        return end
    length = getattr(event.get("DURATION"), "dt", None)
    if length is None:
        return start if isinstance(start, datetime) else start + timedelta(days=1)
    if not isinstance(length, timedelta) or (not isinstance(start, datetime) and length % timedelta(days=1)):
        raise UnusableError("unreadable", "has a DURATION that does not suit its DTSTART")
    try:
        return start + length
    except OverflowError:
        raise UnusableError("too_long", "has a DURATION that leads out of the calendar") from None


def _moment(event: Event, name: str) -> End | None:
    found = event.get(name)
    if found is None:
        return None
    if isinstance(found, list):
        raise UnusableError("unreadable", f"has more than one {name}")
    moment = found.dt
    if not isinstance(moment, date):
        raise UnusableError("unreadable", f"has a {name} that is neither a day nor an instant")
    if isinstance(moment, datetime) and moment.tzinfo is None and found.params.get("TZID"):
        raise UnusableError("unknown_timezone", f"names a time zone that is not known: {found.params['TZID'][:64]}")
    return moment
