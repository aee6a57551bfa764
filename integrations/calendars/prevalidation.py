"""Prevalidation of a calendar's text in one pass, before it is parsed.

A file may be as large as a request, and short lines can be expensive to parse: this limits the number of lines, events
and time zones. A line that starts with white space continues the previous one (RFC 5545, 3.1).
"""

import re

from integrations.calendars.content import CalendarError

MAX_BYTES = 1_048_576
MAX_LINES = 60_000
MAX_EVENTS = 2_000
MAX_ZONES = 500
MAX_DEPTH = 4
MAX_LINE_LENGTH = 100_000

_FOLD = re.compile(r"\r?\n[ \t]")
_LIMITS = {"VEVENT": (MAX_EVENTS, "events"), "VTIMEZONE": (MAX_ZONES, "time zones")}


def prevalidate(text: str) -> str:
    """Return the text of a calendar that may be parsed. Raise CalendarError.

    A byte order mark is removed, because files may have one, although RFC 5545 does not allow it.
    """
    text = text.removeprefix("\ufeff").lstrip()
    if len(text.encode()) > MAX_BYTES:
        raise CalendarError(f"is larger than {MAX_BYTES} bytes")
    if "\0" in text:
        raise CalendarError("contains a NUL character")
    if not text[:20].upper().startswith("BEGIN:VCALENDAR"):
        raise CalendarError("is not an iCalendar file: it must start with BEGIN:VCALENDAR")
    if text.count("\n") > MAX_LINES:
        raise CalendarError(f"has more than {MAX_LINES} lines")
    _check_lines(unfold(text))
    return text


def unfold(text: str) -> list[str]:
    """Return the lines of a calendar, continued ones joined."""
    return _FOLD.sub("", text).split("\n")


def _check_lines(lines: list[str]) -> None:
    depth, counts = 0, dict.fromkeys(_LIMITS, 0)
    for line in lines:
        if len(line) > MAX_LINE_LENGTH:
            raise CalendarError(f"has a line of more than {MAX_LINE_LENGTH} characters")
        mark, _, name = line[:40].partition(":")
        if mark.strip().upper() == "BEGIN":
            depth += 1
            _count(counts, name.strip().upper())
        elif mark.strip().upper() == "END":
            depth -= 1
        if depth > MAX_DEPTH:
            raise CalendarError(f"is nested more than {MAX_DEPTH} levels deep")
    if depth:
        raise CalendarError("is incomplete: a component has no END")


def _count(counts: dict[str, int], name: str) -> None:
    if name in counts:
        counts[name] += 1
        limit, noun = _LIMITS[name]
        if counts[name] > limit:
            raise CalendarError(f"contains more than {limit} {noun}")
