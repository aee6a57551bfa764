"""What a look at a calendar's text can refuse, in one pass, before anything is built from it.

A file may be as large as a request, and cheap lines of it can be dear to those who read them: this bounds how many of
what there are. RFC 5545, 3.1: a line that begins with white space goes on with the one before.
"""

import re
from collections.abc import Iterator

from integrations.calendars.found import CalendarError

MOST_BYTES = 1_048_576
MOST_LINES = 60_000
MOST_EVENTS = 2_000
MOST_ZONES = 100
DEEPEST = 4
LONGEST_LINE = 100_000

_FOLD = re.compile(r"\r?\n[ \t]")
_RULE = re.compile(r"(RRULE|EXRULE)[;:].*FREQ=(SECONDLY|MINUTELY|HOURLY)", re.IGNORECASE)
_MOST = {"VEVENT": (MOST_EVENTS, "events"), "VTIMEZONE": (MOST_ZONES, "time zones")}


def admit(text: str) -> str:
    """Return the text of a calendar that may be read; raises CalendarError.

    A mark of the byte order at its beginning goes, since files have it and RFC 5545 does not know it.
    """
    text = text.removeprefix("\ufeff").lstrip()
    if len(text.encode()) > MOST_BYTES:
        raise CalendarError(f"is larger than {MOST_BYTES} bytes")
    if "\0" in text:
        raise CalendarError("holds a NUL character")
    if not text[:20].upper().startswith("BEGIN:VCALENDAR"):
        raise CalendarError("is no iCalendar: it has to begin with BEGIN:VCALENDAR")
    if text.count("\n") > MOST_LINES:
        raise CalendarError(f"has more than {MOST_LINES} lines")
    _look(_FOLD.sub("", text).split("\n"))
    return text


def _look(lines: list[str]) -> None:
    depth, counts, zone = 0, dict.fromkeys(_MOST, 0), False
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
        if depth > DEEPEST:
            raise CalendarError(f"is nested more than {DEEPEST} levels deep")
    if depth:
        raise CalendarError("is not whole: it does not end what it begins")


def _marks(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the lines that matter here, with what they are."""
    for line in lines:
        if len(line) > LONGEST_LINE:
            raise CalendarError(f"has a line of more than {LONGEST_LINE} characters")
        name, _, value = line[:40].partition(":")
        kind = name.strip().upper()
        if kind in {"BEGIN", "END"}:
            yield kind, value.strip().upper(), line
        elif kind.startswith(("RRULE", "EXRULE")):
            yield "RULE", "", line


def _count(counts: dict[str, int], name: str) -> None:
    if name in counts:
        counts[name] += 1
        most, what = _MOST[name]
        if counts[name] > most:
            raise CalendarError(f"holds more than {most} {what}")
