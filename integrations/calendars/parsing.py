"""Parsing of a calendar file: its events by UID, each separately, so that an invalid one does not affect others."""

import hashlib
import re
from collections.abc import Iterator

from icalendar import Calendar, Event
from icalendar.timezone import tzp
from icalendar.timezone.zoneinfo import ZONEINFO

from integrations.calendars.content import (
    CalendarError,
    ImportedWindow,
    Options,
    ParsedCalendar,
    SkippedEvent,
    name_from,
)
from integrations.calendars.events import Series
from integrations.calendars.prevalidation import unfold
from integrations.calendars.rules import UnusableError
from integrations.calendars.time_zones import TimeZones
from rules.plain_text import is_visible

MAX_DAYS_LISTED = 50_000
"""Expanded days of all events of a calendar together."""


_RULE = re.compile(r"^RRULE[;:][^\r\n]*", re.IGNORECASE | re.MULTILINE)
"""A rule, which some programs write with spaces in its lists (`BYDAY=MO, TU`)."""


class _NoZones(ZONEINFO):
    """Leaves times without their zone, and definitions of zones unread, for `TimeZones`."""

    def knows_timezone_id(self, tzid: str) -> bool:  # noqa: ARG002
        """Return True, so that no definition is read."""
        return True

    def timezone(self, name: str) -> None:
        """Return None: no zone is known here, whatever its name."""


def parse(text: str, options: Options) -> ParsedCalendar:
    """Return the content of a calendar. Raise CalendarError if it is invalid."""
    skipped: list[SkippedEvent] = []
    calendars = _calendars(text)
    if calendars is None:
        usable, skipped = _without_malformed(text)
        calendars = _calendars(usable)
    if calendars is None:
        raise CalendarError("cannot be parsed as iCalendar")
    found: list[ImportedWindow] = []
    remaining = MAX_DAYS_LISTED
    for uid, (events, cancelled) in _by_uid(calendars, options).items():
        series = Series(uid, events, options)
        for item in _windows_of(series, cancelled=cancelled):
            if isinstance(item, ImportedWindow):
                found.append(item)
                remaining -= len(item.recurrence.get("dates", ()))
            else:
                skipped.append(item)
        if remaining < 0:
            raise CalendarError(f"expands to more than {MAX_DAYS_LISTED} days that no rule describes")
    return ParsedCalendar(found, skipped, _name_of(calendars))


def _calendars(text: str) -> list[Calendar] | None:
    """Return the calendars of a text, its times without their zones; None if it is malformed."""
    tzp.use(_NoZones())
    try:
        return Calendar.from_ical(_RULE.sub(_without_spaces, text).encode(), multiple=True)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None
    finally:
        tzp.use_default()


def _without_spaces(rule: re.Match[str]) -> str:
    return rule[0].replace(" ", "")


def _name_of(calendars: list[Calendar]) -> str:
    """Return the name of a calendar (RFC 7986, 5.1, or what programs wrote before it); empty if there is not one."""
    names = {str(calendar.get("NAME") or calendar.get("X-WR-CALNAME") or "").strip() for calendar in calendars}
    return name_from(names.pop()) if len(names) == 1 and all(map(is_visible, names)) else ""


def _without_malformed(text: str) -> tuple[str, list[SkippedEvent]]:
    """Return a text without its malformed components, and the events among them.

    Only events, without their alarms, and time zones are kept. A malformed time zone counts as not defined.
    """
    kept: list[str] = []
    component: list[str] = []
    skipped: list[SkippedEvent] = []
    depth = 0
    for line in unfold(text):
        mark = line.partition(":")[0].strip().upper()
        depth += mark == "BEGIN"
        if depth < 2:
            kept.append(line)
        elif depth == 2 or _value(component, "BEGIN").upper() == "VTIMEZONE":
            component.append(line)
        depth -= mark == "END"
        if mark != "END" or depth != 1:
            continue
        kind = _value(component, "BEGIN").upper()
        alone = "\n".join(["BEGIN:VCALENDAR", *component, "END:VCALENDAR"])
        if kind in {"VEVENT", "VTIMEZONE"} and _calendars(alone) is not None:
            kept += component
        elif kind == "VEVENT":
            name = name_from(_value(component, "SUMMARY"))
            skipped.append(SkippedEvent(_value(component, "UID")[:200], name, "unreadable", "cannot be parsed"))
        component = []
    return "\n".join(kept), skipped


def _value(lines: list[str], name: str) -> str:
    """Return the value of the first line of this name, or an empty text."""
    found = (line.partition(":")[2].strip() for line in lines if line.upper().startswith((f"{name}:", f"{name};")))
    return next(found, "")


def _windows_of(series: Series, *, cancelled: bool) -> Iterator[ImportedWindow | SkippedEvent]:
    if cancelled or series.is_cancelled:
        yield SkippedEvent(series.uid, series.name, "cancelled", "is cancelled")
        return
    try:
        yield from list(series.windows())
    except UnusableError as error:
        yield SkippedEvent(series.uid, series.name, error.code, error.message)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, ArithmeticError):
        yield SkippedEvent(series.uid, series.name, "unreadable", "cannot be parsed")
    for _ in range(series.unrelated_events):
        yield SkippedEvent(series.uid, series.name, "unreadable", "has the UID of another event")


def _by_uid(calendars: list[Calendar], options: Options) -> dict[str, tuple[list[Event], bool]]:
    """Return the events by UID, with True if their calendar cancels them (RFC 5546, 3.2.5)."""
    found: dict[str, tuple[list[Event], bool]] = {}
    for calendar in calendars:
        cancels = str(calendar.get("METHOD", "")).upper() == "CANCEL"
        zones = TimeZones(calendar, options)
        for event in calendar.walk("VEVENT"):
            if isinstance(event, Event):
                zones.apply(event)
                uid = _uid(event)
                events, cancelled = found.get(uid, ([], cancels))
                events.append(event)
                found[uid] = (events, cancelled and cancels)
    return found


def _uid(event: Event) -> str:
    """Return the UID of an event; one without a UID is identified by its start and name."""
    given = event.get("UID")
    text = str(given[0] if isinstance(given, list) else given or "").strip()
    if not text:
        start = event.get("DTSTART")
        text = f"unnamed:{start.to_ical().decode() if start is not None else ''}:{event.get('SUMMARY', '')}"
    clean = "".join(character for character in text if character.isprintable())
    return clean if len(clean) <= 200 else hashlib.sha256(clean.encode()).hexdigest()
