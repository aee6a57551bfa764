"""Calendars written by hand, and their windows in real time."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from integrations.calendars import ics
from integrations.calendars.content import ImportedWindow, Options, ParsedCalendar
from integrations.calendars.parsing import parse
from integrations.calendars.prevalidation import prevalidate
from rules.time.recurrence import check, days
from rules.time.wall_clock import Window, real_time_of
from services.schedules.terms import recurrence_of, window_of

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LONDON = Options("Europe/London", NOW)
STANDUP = "UID:deploys@example.com\nSUMMARY:Deploys\n"
WEEKLY = f"{STANDUP}DTSTART;TZID=Europe/London:20260105T170000\nDTEND;TZID=Europe/London:20260105T180000\n"


def calendar(*events: str, head: str = "") -> str:
    """Return a calendar of events, each the lines between BEGIN and END."""
    parts = [f"BEGIN:VEVENT\nDTSTAMP:20260101T000000Z\n{event.strip()}\nEND:VEVENT\n" for event in events]
    text = f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//Tests//EN\n{head}{''.join(parts)}END:VCALENDAR\n"
    return text.replace("\n", "\r\n")


def read(text: str, **options: Any) -> ParsedCalendar:
    """Read a calendar that means no harm, right here."""
    return parse(prevalidate(text), replace(LONDON, **options))


def read_apart(text: str, **options: Any) -> ParsedCalendar:
    """Read a calendar as the service does, in a process of its own."""
    return ics.read(text, replace(LONDON, **options))


def by_part(text: str) -> dict[str, ImportedWindow]:
    """Return the windows of a calendar by their part of the event."""
    return {found.part: found for found in read(text).found}


def only(text: str, **options: Any) -> ImportedWindow:
    """Return the one window of a calendar from which nothing is left out."""
    reading = read(text, **options)
    assert not reading.skipped
    (found,) = reading.found
    return found


def why(reading: ParsedCalendar) -> list[str]:
    """Return the codes of what is left out of a calendar that has no window."""
    assert not reading.found
    return [skipped.code for skipped in reading.skipped]


def spans(found: ImportedWindow, first: str = "2026-01-01", last: str = "2032-01-01") -> list[tuple[str, str]]:
    """Return the real times of a window, as it would be planned, in UTC."""
    return [
        (f"{span.start:%Y-%m-%dT%H:%M}", f"{span.end:%Y-%m-%dT%H:%M}") for span in _placed(found, first, last) if span
    ]


def _placed(found: ImportedWindow, first: str, last: str) -> Iterator[Any]:
    recurrence, window = recurrence_of(found.recurrence), window_of(found.window)
    check(recurrence)
    for day in days(recurrence, date.fromisoformat(first), date.fromisoformat(last)):
        yield real_time_of(window, day, ZoneInfo(found.timezone))


def evening_before() -> Window:
    """Return a window from five in the afternoon to eight the next day."""
    return Window(time(17), time(8), 1)
