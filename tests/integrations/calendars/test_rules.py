"""A rule that becomes a recurrence has the days that recurring-ical-events finds in the calendar."""

from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import recurring_ical_events
from hypothesis import given, settings
from hypothesis import strategies as st
from icalendar import Calendar

from integrations.calendars.rules import UnusableError, translate
from rules.time.recurrence import days
from tests.integrations.calendars.vectors import calendar

LONDON = ZoneInfo("Europe/London")
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
LAST = date(2032, 1, 1)
COMPARED = 40


@st.composite
def written_rules(draw: st.DrawFn) -> str:
    """Draw a rule as calendars write it, sensible or not."""
    parts = {"FREQ": draw(st.sampled_from(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]))}
    ordinal = st.sampled_from(["", "", "", "1", "2", "-1", "5"])
    by_day = st.sets(st.tuples(ordinal, st.sampled_from(WEEKDAYS)).map("".join), min_size=1, max_size=3)
    options = {
        "INTERVAL": st.integers(1, 4).map(str),
        "BYDAY": by_day.map(",".join),
        "BYMONTHDAY": st.sets(st.sampled_from([1, 13, 28, 31, -1]), min_size=1, max_size=2).map(_joined),
        "BYMONTH": st.sets(st.integers(1, 12), min_size=1, max_size=3).map(_joined),
        "WKST": st.sampled_from(["MO", "SU"]),
    }
    parts |= {name: draw(values) for name, values in options.items() if draw(st.booleans())}
    end = draw(st.sampled_from(["", "COUNT=7", "UNTIL=20280301T100000Z", "UNTIL=20280301T165959Z"]))
    return ";".join([*(f"{name}={value}" for name, value in parts.items()), *filter(None, [end])])


def _rule(parsed: Calendar) -> Any:
    return parsed.walk("VEVENT")[0]["RRULE"]


def _joined(numbers: set[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


@settings(max_examples=150)
@given(rule=written_rules(), start=st.dates(date(2024, 1, 1), date(2027, 12, 31)))
def test_recurrence_has_the_days_of_its_rule(rule: str, start: date) -> None:
    text = calendar(f"UID:1\nDTSTART;TZID=Europe/London:{start:%Y%m%d}T170000\nDURATION:PT1H\nRRULE:{rule}")
    parsed = Calendar.from_ical(text)
    try:
        recurrence = translate(_rule(parsed), start, time(17), LONDON)
    except UnusableError:
        return
    if recurrence is None:
        return
    (series,) = recurring_ical_events.of(parsed).series
    span = datetime.combine(start - timedelta(days=1), time()), datetime.combine(LAST, time())
    expected = sorted({occurrence.start.date() for occurrence in series.between(*span)})[:COMPARED]
    assert list(islice(days(recurrence, start, LAST - timedelta(days=1)), COMPARED)) == expected


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
