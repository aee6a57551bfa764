"""An imported rule has the days that python-dateutil finds."""

from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from icalendar import Calendar

from integrations.calendars.rules import UnusableError, translate
from rules.time.recurrence import days
from services.schedules.terms import recurrence_of
from tests.harness.random_seed import exploring
from tests.integrations.calendars.vectors import NOW, calendar, read

LONDON = ZoneInfo("Europe/London")
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
FIRST, LISTED_UNTIL, LAST = NOW.date() + timedelta(days=1), date(2031, 12, 31), date(2032, 12, 31)


def test_rule_with_spaces_in_its_lists_is_read() -> None:
    [found] = read(calendar("UID:1\nDTSTART:20261207T090000Z\nDURATION:PT1H\nRRULE:FREQ=WEEKLY;BYDAY=MO, TU")).found
    assert found.recurrence["by_day"] == ["MO", "TU"]


def test_rule_that_ends_before_the_start_of_its_first_day_has_that_day() -> None:
    [found] = read(
        calendar("UID:1\nDTSTART:20261207T090000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;UNTIL=20261207T080000Z")
    ).found
    assert list(days(recurrence_of(found.recurrence), FIRST, LAST)) == [date(2026, 12, 7)]
    [skipped] = read(
        calendar("UID:1\nDTSTART:20261207T090000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;UNTIL=20261206T080000Z")
    ).skipped
    assert skipped.code == "unsupported_recurrence"


def test_rule_with_weeks_and_weekdays_is_expanded() -> None:
    rule = "RRULE:FREQ=YEARLY;BYWEEKNO=51;BYDAY=MO,TU"
    [found] = read(calendar(f"UID:1\nDTSTART;VALUE=DATE:20261214\n{rule}")).found
    assert found.recurrence["dates"][:4] == ["2026-12-14", "2026-12-15", "2027-12-20", "2027-12-21"]


def test_event_that_ends_in_the_second_in_which_it_starts_has_no_length() -> None:
    [skipped] = read(calendar("UID:1\nDTSTART:20261207T090030Z\nDTEND:20261207T090030Z")).skipped
    assert skipped.code == "no_length"


@st.composite
def written_rules(draw: st.DrawFn) -> str:
    """Draw a rule as calendars write it, sensible or not."""
    parts = {"FREQ": draw(st.sampled_from(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]))}
    ordinals = [""] if parts["FREQ"] == "WEEKLY" else ["", "", "", "1", "2", "-1", "5"]
    ordinal = draw(st.sampled_from(ordinals))
    by_day = st.sets(st.sampled_from(WEEKDAYS).map(ordinal.__add__), min_size=1, max_size=5)
    options = {
        "INTERVAL": st.integers(1, 4).map(str),
        "BYDAY": by_day.map(",".join),
        "BYMONTHDAY": st.sets(st.sampled_from([1, 13, 28, 31, -1]), min_size=1, max_size=2).map(_joined),
        "BYMONTH": st.sets(st.integers(1, 12), min_size=1, max_size=3).map(_joined),
        "BYSETPOS": st.sets(st.sampled_from([1, 2, -1, -2, 5]), min_size=1, max_size=2).map(_joined),
        "WKST": st.sampled_from(WEEKDAYS),
    }
    parts |= {name: draw(values) for name, values in options.items() if draw(st.booleans())}
    end = draw(st.sampled_from(["", "COUNT=7", "UNTIL=20280301T100000Z", "UNTIL=20280301T165959Z"]))
    return ";".join([*(f"{name}={value}" for name, value in parts.items()), *filter(None, [end])])


def _rule(parsed: Calendar) -> Any:
    return parsed.walk("VEVENT")[0]["RRULE"]


def _joined(numbers: set[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


@st.composite
def events(draw: st.DrawFn) -> tuple[str, date, set[date], bool]:
    """Draw a rule, its start, excluded days, and whether the event takes whole days."""
    start = draw(st.dates(date(2024, 1, 1), date(2027, 12, 31)))
    excluded = draw(st.sets(st.dates(start, start + timedelta(days=400)), max_size=6))
    return draw(written_rules()), start, excluded, draw(st.booleans())


def by_dateutil(rule: str, start: date, clock: time) -> list[date]:
    """Return the days of a written rule until the day after `LAST` as python-dateutil finds them, and the start.

    It counts positions in the first week only from the start, so a weekly rule is expanded from the day on which that
    week starts.
    """
    parts = dict(part.split("=") for part in rule.split(";"))
    count = int(parts.pop("COUNT", 10_000))
    first = start
    if parts["FREQ"] == "WEEKLY":
        first -= timedelta(days=(start.weekday() - WEEKDAYS.index(parts.get("WKST", "MO"))) % 7)
        parts.setdefault("BYDAY", WEEKDAYS[start.weekday()])
    parts.setdefault("UNTIL", f"{LAST + timedelta(days=1):%Y%m%d}T235959Z")
    written = ";".join(f"{name}={value}" for name, value in parts.items())
    found = rrulestr(written, dtstart=datetime.combine(first, clock, LONDON))
    counted = list(islice((moment.date() for moment in found if moment.date() >= start), count))
    return sorted({start, *counted})


@settings(max_examples=60 if exploring() else 25)
@given(event=events(), day_before=st.booleans())
def test_imported_event_has_the_days_of_its_rule(event: tuple[str, date, set[date], bool], *, day_before: bool) -> None:
    rule, start, excluded, whole_days = event
    moment, length = (
        (";VALUE=DATE:{0:%Y%m%d}", "P1D") if whole_days else (";TZID=Europe/London:{0:%Y%m%d}T170000", "PT1H")
    )
    lines = [f"UID:1\nDTSTART{moment.format(start)}\nDURATION:{length}\nRRULE:{rule}"]
    lines += [f"EXDATE{moment.format(day)}" for day in excluded]
    reading = read(calendar("\n".join(lines)), day_before=day_before)
    assume({skipped.code for skipped in reading.skipped} <= {"past"})
    earlier = timedelta(days=int(whole_days and day_before))
    recurrences = [recurrence_of(window.recurrence) for window in reading.found]
    found = [day for recurrence in recurrences for day in days(recurrence, FIRST, LAST)]
    assume(found)  # dateutil searches until the year 9999 for what never happens
    days_of_rule = by_dateutil(rule, start, time() if whole_days else time(17))
    expected = [day - earlier for day in days_of_rule if day not in excluded]
    is_cut = any(window.cut for window in reading.found)
    until = LISTED_UNTIL - earlier if is_cut else LAST
    assert sorted(found) == [day for day in expected if FIRST <= day <= until]
    assert not is_cut or "UNTIL" not in rule


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=SECONDLY",
        "FREQ=MINUTELY;COUNT=2",
        "FREQ=HOURLY",
        "FREQ=DAILY;BYHOUR=9",
        "FREQ=DAILY;INTERVAL=0",
        "FREQ=DAILY;INTERVAL=1001",
        "FREQ=DAILY;COUNT=1000000000",
        "FREQ=DAILY;COUNT=2;UNTIL=20280101",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=YEARLY;BYDAY=20MO",
        "FREQ=YEARLY;BYMONTHDAY=1",
        "FREQ=YEARLY;BYWEEKNO=20",
        "FREQ=MONTHLY;BYDAY=MO,1TU",
        "FREQ=WEEKLY;BYMONTHDAY=1",
    ],
)
def test_endless_or_ambiguous_rule_is_rejected(rule: str) -> None:
    parsed = Calendar.from_ical(calendar(f"UID:1\nDTSTART:20260101T170000\nRRULE:{rule}"))
    with pytest.raises(UnusableError) as refused:
        translate(_rule(parsed), date(2026, 1, 1), time(17), LONDON)
    assert refused.value.code == "unsupported_recurrence"
