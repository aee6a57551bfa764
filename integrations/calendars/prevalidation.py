"""Prevalidation of a calendar's text in one pass, before it is parsed.

A file may be as large as a request, and short lines can be expensive to parse: this limits the number of lines, events
and time zones. A line that starts with white space continues the previous one (RFC 5545, 3.1).
"""

import re
from collections.abc import Iterator

from integrations.calendars.content import CalendarError

MAX_BYTES = 1_048_576
MAX_LINES = 60_000
MAX_EVENTS = 2_000
MAX_ZONES = 100
MAX_DEPTH = 4
MAX_LINE_LENGTH = 100_000

_FOLD = re.compile(r"\r?\n[ \t]")
_RULE = re.compile(r"(RRULE|EXRULE)[;:].*FREQ=(SECONDLY|MINUTELY|HOURLY)", re.IGNORECASE)
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
    depth, counts, zone = 0, dict.fromkeys(_LIMITS, 0), False
    for kind, name, line in _marks(lines):
        if kind == "BEGIN":
            depth += 1
            zone = zone or name == "VTIMEZONE"
            _count(counts, name)
        elif kind == "END":
            depth -= 1
            zone = zone and name != "VTIMEZONE"
        elif zone and _RULE.match(line):
            raise CalendarError("defines a time zone that changes more often than daily")
        if depth > MAX_DEPTH:
            raise CalendarError(f"is nested more than {MAX_DEPTH} levels deep")
    if depth:
        raise CalendarError("is incomplete: a component has no END")


def _marks(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the relevant lines with their kind and component name."""
    for line in lines:
        if len(line) > MAX_LINE_LENGTH:
            raise CalendarError(f"has a line of more than {MAX_LINE_LENGTH} characters")
        name, _, value = line[:40].partition(":")
        kind = name.strip().upper()
        if kind in {"BEGIN", "END"}:
            yield kind, value.strip().upper(), line
        elif kind.startswith(("RRULE", "EXRULE")):
            yield "RULE", "", line


def _count(counts: dict[str, int], name: str) -> None:
    if name in counts:
        counts[name] += 1
        limit, noun = _LIMITS[name]
        if counts[name] > limit:
            raise CalendarError(f"contains more than {limit} {noun}")
