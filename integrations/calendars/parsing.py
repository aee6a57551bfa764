"""The whole of a calendar file: its events by UID, each read on its own, so that a bad one spoils no other."""

import hashlib
from collections.abc import Iterator

import x_wr_timezone
from icalendar import Calendar, Event

from integrations.calendars.events import Series
from integrations.calendars.found import CalendarError, Found, LeftOut, Options, Reading, name_from
from integrations.calendars.rules import UnusableError
from rules.time.zones import zone_names

MOST_DAYS_LISTED = 50_000
"""Days that all the events of a calendar together may be expanded into."""
_ZONE = "X-WR-TIMEZONE"


def parse(text: str, options: Options) -> Reading:
    """Return what a calendar holds; raises CalendarError for what is none."""
    try:
        calendars = Calendar.from_ical(text.encode(), multiple=True)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise CalendarError(f"cannot be read as iCalendar: {name_from(error)}") from error
    found: list[Found] = []
    left_out: list[LeftOut] = []
    room = MOST_DAYS_LISTED
    for uid, (events, cancelled) in _by_uid(calendars).items():
        series = Series(uid, events, options)
        for item in _read(series, cancelled=cancelled):
            if isinstance(item, Found):
                found.append(item)
                room -= len(item.recurrence.get("dates", ()))
            else:
                left_out.append(item)
        if room < 0:
            raise CalendarError(f"stands for more than {MOST_DAYS_LISTED} days that no rule says")
    return Reading(found, left_out)


def _read(series: Series, *, cancelled: bool) -> Iterator[Found | LeftOut]:
    if cancelled or series.is_cancelled:
        yield LeftOut(series.uid, series.name, "cancelled", "is cancelled")
        return
    try:
        yield from list(series.windows())
    except UnusableError as error:
        yield LeftOut(series.uid, series.name, error.code, error.message)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, ArithmeticError):
        yield LeftOut(series.uid, series.name, "unreadable", "cannot be read")
    for _ in range(series.left_behind):
        yield LeftOut(series.uid, series.name, "unreadable", "has the UID of another event")


def _by_uid(calendars: list[Calendar]) -> dict[str, tuple[list[Event], bool]]:
    """Return the events of each UID, and whether the calendar that has them cancels them (RFC 5546, 3.2.5)."""
    found: dict[str, tuple[list[Event], bool]] = {}
    for calendar in calendars:
        cancels = str(calendar.get("METHOD", "")).upper() == "CANCEL"
        for event in _in_its_zone(calendar).walk("VEVENT"):
            if isinstance(event, Event):
                uid = _uid(event)
                events, cancelled = found.get(uid, ([], cancels))
                events.append(event)
                found[uid] = (events, cancelled and cancels)
    return found


def _in_its_zone(calendar: Calendar) -> Calendar:
    """Return a calendar whose times in UTC, and in no zone, are those of the zone that it names for itself."""
    zone = str(calendar.get(_ZONE, ""))
    if zone not in zone_names():
        return calendar
    changed: Calendar = x_wr_timezone.to_standard(calendar)
    return changed


def _uid(event: Event) -> str:
    """Return what an event is known by; one without a UID by its day and its name."""
    given = event.get("UID")
    text = str(given[0] if isinstance(given, list) else given or "").strip()
    if not text:
        start = event.get("DTSTART")
        text = f"unnamed:{start.to_ical().decode() if start is not None else ''}:{event.get('SUMMARY', '')}"
    clean = "".join(character for character in text if character.isprintable())
    return clean if len(clean) <= 200 else hashlib.sha256(clean.encode()).hexdigest()
