"""Malicious calendars: each is rejected, or its event left out, in bounded time and memory.

That the time is bounded shows in that these tests end: some of these would take for ever, or all memory.
"""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from integrations.calendars import reader
from integrations.calendars.content import CalendarError
from integrations.calendars.prevalidation import MAX_BYTES, MAX_EVENTS, MAX_LINE_LENGTH, MAX_LINES, MAX_ZONES
from tests.integrations.calendars.vectors import calendar, read_apart, why

DAY = "UID:{}\nDTSTART;VALUE=DATE:20260101"
NEVER = "RRULE:FREQ=DAILY;BYMONTH=1;BYYEARDAY=200"
"""A rule that has no day, which is found only by trying all of them."""


def events(count: int, *lines: str) -> str:
    return calendar(*("\n".join((DAY.format(number), *lines)) for number in range(count)))


ZONE = (
    "BEGIN:VTIMEZONE\nTZID:Z\nBEGIN:STANDARD\nDTSTART:16010101T000000\n"
    "TZOFFSETFROM:+0000\nTZOFFSETTO:+0100\nRRULE:FREQ=YEARLY\nEND:STANDARD\nEND:VTIMEZONE\n"
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "is not an iCalendar", id="nothing"),
        pytest.param("Dear all,", "is not an iCalendar", id="a letter"),
        pytest.param("BEGIN:VCARD\nEND:VCARD", "is not an iCalendar", id="a card"),
        pytest.param("B\0E\0G\0I\0N\0", "contains a NUL", id="UTF-16 read as something else"),
        pytest.param("BEGIN:VCALENDAR\0", "contains a NUL", id="NUL"),
        pytest.param("㡅䝉丠", "is not an iCalendar", id="bytes in the wrong order"),
        pytest.param("BEGIN:VCALENDAR\nBEGIN:VEVENT\n", "is incomplete", id="cut off"),
        pytest.param("BEGIN:VCALENDAR\nEND:VEVENT\nEND:VCALENDAR\n", "is incomplete", id="an end without a beginning"),
        pytest.param("BEGIN:VCALENDAR\n" + "x" * MAX_BYTES, "is larger than", id="10 MB"),
        pytest.param("BEGIN:VCALENDAR\n" + "é" * (MAX_BYTES // 2), "is larger than", id="in bytes, not in characters"),
        pytest.param(events(MAX_EVENTS + 1), "more than 2000 events", id="very many events"),
        pytest.param("BEGIN:VCALENDAR\n" + "A:1\n" * MAX_LINES, "more than 60000 lines", id="very many lines"),
        pytest.param(calendar(f"UID:{'x' * MAX_LINE_LENGTH}"), "has a line of", id="a very long line"),
        pytest.param(
            calendar("UID:" + "\n ".join("x" * 30_000 + "x" * MAX_LINE_LENGTH)), "lines", id="folded very often"
        ),
        pytest.param("BEGIN:VCALENDAR\n" + "BEGIN:VEVENT\n" * 1000, "is nested", id="very deep"),
        pytest.param(calendar(DAY, head=ZONE * (MAX_ZONES + 1)), "more than 500 time zones", id="very many time zones"),
        pytest.param("BEGIN:VCALENDAR\n;;;\nEND:VCALENDAR\n", "be parsed", id="no properties"),
        pytest.param(
            events(100, "RRULE:FREQ=DAILY;BYDAY=MO,TU,WE;COUNT=600"),
            "expands to more than",
            id="very many days",
        ),
    ],
)
def test_malformed_or_oversized_calendar_is_rejected(text: str, reason: str) -> None:
    with pytest.raises(CalendarError, match=reason):
        read_apart(text)


MALICIOUS_EVENTS = {
    "every second": ("RRULE:FREQ=SECONDLY", "unsupported_recurrence"),
    "never, by seconds": ("RRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", "unsupported_recurrence"),
    "30 February": ("RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "unsupported_recurrence"),
    "a billion times": ("RRULE:FREQ=DAILY;COUNT=1000000000", "unsupported_recurrence"),
    "a huge interval": (f"RRULE:FREQ=DAILY;INTERVAL={10**30}", "unreadable"),
    "the second of one day": ("RRULE:FREQ=DAILY;BYSETPOS=2", "unsupported_recurrence"),
    "no interval": ("RRULE:FREQ=DAILY;INTERVAL=0", "unsupported_recurrence"),
    "backwards": ("RRULE:FREQ=DAILY;INTERVAL=-1", "unsupported_recurrence"),
    "5,000 rules": ("\n".join(["RRULE:FREQ=DAILY"] * 5000), "unsupported_recurrence"),
    "a rule against itself": ("RRULE:FREQ=DAILY\nEXRULE:FREQ=DAILY", "unsupported_recurrence"),
    "10,000 days": ("RDATE;VALUE=DATE:" + ",".join(["20260102"] * 10_000), "unsupported_recurrence"),
    "a duration beyond numbers": ("DURATION:P99999999999999999999D", "unreadable"),
    "a duration beyond the calendar": ("DURATION:P99999999D", "too_long"),
    "by the hour": ("RRULE:FREQ=DAILY;UNTIL=99991231T235959Z;BYHOUR=1", "unsupported_recurrence"),
}
"""What is sent about an event, and the code that it is left out with."""


def test_malformed_or_oversized_events_are_left_out() -> None:
    sent = [f"{DAY.format(number)}\n{lines}" for number, (lines, _code) in enumerate(MALICIOUS_EVENTS.values())]
    left_out = why(read_apart(calendar(*sent)))
    assert dict(zip(MALICIOUS_EVENTS, left_out, strict=True)) == {
        name: code for name, (_lines, code) in MALICIOUS_EVENTS.items()
    }


def test_property_with_many_parameters_is_read() -> None:
    assert read_apart(events(1, "X-A" + ";B=1" * 24_000 + ":1")).found


def test_events_with_circular_references_are_read() -> None:
    reading = read_apart(
        calendar("UID:1\nRELATED-TO:2\nDTSTART;VALUE=DATE:20261225", "UID:2\nRELATED-TO:1\nDTSTART;VALUE=DATE:20261225")
    )
    assert len(reading.found) == 2


@pytest.mark.check
@pytest.mark.slow(7)
def test_endless_rule_search_is_stopped_and_logged_without_calendar(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(CalendarError, match="too much time"):
        read_apart(events(1500, NEVER))
    assert [record.message for record in caplog.records] == ["the calendar reader ended by signal 24"]


def test_calendar_reader_process_has_bounded_memory_and_cannot_write_files() -> None:
    code = (
        "import os, sys; from integrations.calendars import reader; reader.limit()\n"
        "try: bytearray(reader.MEMORY_BYTES)\n"
        "except MemoryError: print('no memory')\n"
        "try: open('/tmp/of-a-calendar', 'wb', buffering=0).write(b'x')\n"
        "except OSError: print('no file')\n"
    )
    root = Path(reader.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, env={}, capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[0] == "no memory"
    assert "no file" in done.stdout or done.returncode == -25
