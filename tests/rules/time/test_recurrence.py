"""The days of a recurrence: known ones, what is refused and why, and two oracles.

One tries every single day, the other is python-dateutil.
"""

from datetime import date, timedelta
from itertools import islice
from time import process_time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rules.errors import ServiceError
from rules.time.recurrence import EARLIEST, LATEST, Recurrence, check, days
from tests.rules.time.recurrences import START, WEEKDAYS, by_dateutil, by_trying, rules


def first_days(recurrence: Recurrence, count: int = 4) -> list[str]:
    check(recurrence)
    return [day.isoformat() for day in islice(days(recurrence, recurrence.start_date, date(2040, 1, 1)), count)]


@pytest.mark.parametrize(
    ("recurrence", "expected"),
    [
        pytest.param(Recurrence("once", START), ["2026-01-01"], id="once"),
        pytest.param(
            Recurrence("daily", START, interval=2, count=3),
            ["2026-01-01", "2026-01-03", "2026-01-05"],
            id="every other day",
        ),
        pytest.param(
            Recurrence("daily", START, by_day=("SA", "SU"), count=2), ["2026-01-03", "2026-01-04"], id="weekends"
        ),
        pytest.param(
            Recurrence("weekly", START, by_day=("FR",), until=date(2026, 1, 9)),
            ["2026-01-02", "2026-01-09"],
            id="until is included",
        ),
        pytest.param(
            Recurrence("weekly", START, interval=2, by_day=("MO", "SU"), count=3),
            ["2026-01-04", "2026-01-12", "2026-01-18"],
            id="weeks begin on Monday",
        ),
        pytest.param(
            Recurrence("monthly", START, by_day=("-1FR",), count=3),
            ["2026-01-30", "2026-02-27", "2026-03-27"],
            id="the last Friday",
        ),
        pytest.param(
            Recurrence("monthly", START, by_month_day=(31,), count=3),
            ["2026-01-31", "2026-03-31", "2026-05-31"],
            id="short months are skipped",
        ),
        pytest.param(
            Recurrence("monthly", START, by_month_day=(-1,), count=2),
            ["2026-01-31", "2026-02-28"],
            id="-1 is the last day",
        ),
        pytest.param(
            Recurrence("yearly", date(2026, 2, 1), by_month=(2,), by_month_day=(29,), count=2),
            ["2028-02-29", "2032-02-29"],
            id="leap days",
        ),
        pytest.param(
            Recurrence("yearly", START, by_month=(11,), by_day=("4TH",), count=2),
            ["2026-11-26", "2027-11-25"],
            id="the fourth Thursday of November",
        ),
        pytest.param(
            Recurrence("yearly", date(2026, 12, 24), count=2), ["2026-12-24", "2027-12-24"], id="the same day each year"
        ),
        pytest.param(
            Recurrence("monthly", START, by_day=WEEKDAYS[:5], by_set_position=(-1,), count=4),
            ["2026-01-30", "2026-02-27", "2026-03-31", "2026-04-30"],
            id="the last working day of the month",
        ),
        pytest.param(
            Recurrence("monthly", date(2026, 1, 15), by_day=WEEKDAYS[:5], by_set_position=(1, 2), count=2),
            ["2026-02-02", "2026-02-03"],
            id="positions are of the whole month, also before the start",
        ),
        pytest.param(
            Recurrence("monthly", START, by_day=("FR",), by_set_position=(5,), count=2),
            ["2026-01-30", "2026-05-29"],
            id="a month without the position is skipped",
        ),
        pytest.param(
            Recurrence("yearly", START, by_month=(3, 12), by_day=WEEKDAYS[:5], by_set_position=(-1, 1), count=3),
            ["2026-03-02", "2026-12-31", "2027-03-01"],
            id="positions of a year",
        ),
        pytest.param(
            Recurrence("weekly", START, by_day=("MO", "WE", "FR"), by_set_position=(2,), count=2),
            ["2026-01-07", "2026-01-14"],
            id="positions are of the whole week, also before the start",
        ),
        pytest.param(
            Recurrence("monthly", START, by_day=WEEKDAYS[:5], by_set_position=(-1,), until=date(2026, 2, 26)),
            ["2026-01-30"],
            id="positions are of the whole month, also after the end",
        ),
        pytest.param(
            Recurrence("weekly", date(2026, 1, 6), interval=2, by_day=("TU", "SU"), week_start="SU", count=3),
            ["2026-01-06", "2026-01-18", "2026-01-20"],
            id="weeks begin on Sunday",
        ),
        pytest.param(
            Recurrence("daily", START, count=3, except_dates=(date(2026, 1, 2), date(2026, 1, 9))),
            ["2026-01-01", "2026-01-03"],
            id="exceptions are counted",
        ),
        pytest.param(
            Recurrence("dates", START, dates=(date(2026, 12, 25), date(2025, 12, 25), date(2026, 4, 3))),
            ["2026-04-03", "2026-12-25"],
            id="listed days, those before the start left out",
        ),
    ],
)
def test_recurrence_has_its_days(recurrence: Recurrence, expected: list[str]) -> None:
    assert first_days(recurrence)[: len(expected)] == expected
    if recurrence.count or recurrence.until or recurrence.dates:
        assert len(first_days(recurrence)) == len(expected)


@pytest.mark.parametrize(
    ("recurrence", "field"),
    [
        pytest.param(Recurrence("once", START, count=2), "count", id="once is not counted"),
        pytest.param(Recurrence("dates", START, dates=(START,), count=2), "count", id="listed days are not counted"),
        pytest.param(Recurrence("dates", START), "dates", id="no listed day"),
        pytest.param(Recurrence("dates", START, dates=(START, START)), "dates", id="a day listed twice"),
        pytest.param(Recurrence("dates", START, dates=(START, LATEST)), "dates", id="a listed day too far away"),
        pytest.param(Recurrence("dates", START, dates=(date(2025, 1, 1),)), "dates", id="only days before the start"),
        pytest.param(
            Recurrence("dates", START, dates=tuple(START + timedelta(days=lag) for lag in range(1001))),
            "dates",
            id="too many listed days",
        ),
        pytest.param(Recurrence("daily", START, dates=(START,)), "dates", id="a rule and listed days"),
        pytest.param(Recurrence("daily", START, interval=0), "interval", id="no interval"),
        pytest.param(Recurrence("daily", START, until=date(2025, 12, 31)), "until", id="an end before the start"),
        pytest.param(Recurrence("daily", START, until=START, count=1), "count", id="two ends"),
        pytest.param(Recurrence("daily", START, count=0), "count", id="nothing"),
        pytest.param(Recurrence("weekly", START, by_day=("Friday",)), "byDay", id="no weekday"),
        pytest.param(Recurrence("weekly", START, by_day=("1FR",)), "byDay", id="an ordinal in a week"),
        pytest.param(Recurrence("monthly", START, by_day=("MO", "1TU")), "byDay", id="counted and plain weekdays"),
        pytest.param(Recurrence("yearly", START, by_day=("1FR",)), "byDay", id="a weekday of a year"),
        pytest.param(Recurrence("yearly", START, by_month_day=(1,)), "byMonthDay", id="a day of a year"),
        pytest.param(Recurrence("weekly", START, by_month_day=(1,)), "byMonthDay", id="a day of the month in a week"),
        pytest.param(Recurrence("yearly", START, by_month=(2,), by_month_day=(30,)), "byMonthDay", id="30 February"),
        pytest.param(Recurrence("daily", START, by_month=(4,), by_month_day=(31, -31)), "byMonthDay", id="31 April"),
        pytest.param(Recurrence("monthly", START, by_month_day=(32,)), "byMonthDay", id="the 32nd"),
        pytest.param(Recurrence("yearly", START, by_month=(13,)), "byMonth", id="a thirteenth month"),
        pytest.param(Recurrence("once", START, by_set_position=(1,)), "bySetPosition", id="once has no positions"),
        pytest.param(Recurrence("once", START, except_dates=(START,)), "exceptDates", id="once has no exceptions"),
        pytest.param(Recurrence("once", START, week_start="SU"), "weekStart", id="once has no weeks"),
        pytest.param(
            Recurrence("dates", START, dates=(START,), except_dates=(START,)),
            "exceptDates",
            id="listed days have no exceptions",
        ),
        pytest.param(Recurrence("daily", START, by_set_position=(1,)), "bySetPosition", id="the position of a day"),
        pytest.param(Recurrence("monthly", START, by_set_position=(1,)), "bySetPosition", id="positions of nothing"),
        pytest.param(
            Recurrence("yearly", START, by_month=(1,), by_set_position=(1,)), "bySetPosition", id="positions of months"
        ),
        pytest.param(
            Recurrence("monthly", START, by_day=("MO",), by_set_position=(0,)), "bySetPosition", id="position zero"
        ),
        pytest.param(
            Recurrence("monthly", START, by_day=("MO",), by_set_position=(-32,)),
            "bySetPosition",
            id="a position that no month has",
        ),
        pytest.param(
            Recurrence("weekly", START, by_day=("MO",), by_set_position=(8,)),
            "bySetPosition",
            id="a position that no week has",
        ),
        pytest.param(Recurrence("weekly", START, week_start="1MO"), "weekStart", id="no day that weeks start on"),
        pytest.param(Recurrence("monthly", START, week_start="SU"), "weekStart", id="months without weeks"),
        pytest.param(Recurrence("daily", START, except_dates=(START, START)), "exceptDates", id="an exception twice"),
        pytest.param(Recurrence("daily", START, except_dates=(LATEST,)), "exceptDates", id="an exception too far away"),
        pytest.param(
            Recurrence("daily", START, except_dates=tuple(START + timedelta(days=lag) for lag in range(1001))),
            "exceptDates",
            id="too many exceptions",
        ),
        pytest.param(Recurrence("daily", date(1999, 12, 31)), "startDate", id="too long ago"),
        pytest.param(Recurrence("daily", LATEST), "startDate", id="too far away"),
    ],
)
def test_invalid_recurrence_is_rejected_with_its_field(recurrence: Recurrence, field: str) -> None:
    with pytest.raises(ServiceError) as refused:
        check(recurrence)
    assert refused.value.code == "invalid_recurrence"
    assert [detail.path for detail in refused.value.details] == [f"/recurrence/{field}"]
    assert field in refused.value.message


def test_every_invalid_field_of_a_recurrence_is_reported() -> None:
    with pytest.raises(ServiceError) as refused:
        check(
            Recurrence(
                "weekly",
                START,
                interval=0,
                by_day=("X",),
                by_month=(0,),
                count=-1,
                by_set_position=(9,),
                week_start="X",
                except_dates=(LATEST,),
            )
        )
    assert [detail.path.rpartition("/")[2] for detail in refused.value.details] == [
        "interval",
        "count",
        "byDay",
        "byMonth",
        "weekStart",
        "bySetPosition",
        "exceptDates",
    ]


@given(
    listed=st.sets(st.dates(date(2025, 1, 1), date(2027, 1, 1)), min_size=1, max_size=20).flatmap(
        lambda days_: st.permutations(sorted(days_))
    ),
    first=st.dates(date(2025, 1, 1), date(2027, 1, 1)),
)
def test_listed_days_are_ordered_from_the_start(listed: list[date], first: date) -> None:
    recurrence = Recurrence("dates", START, dates=tuple(listed))
    wanted = [day for day in sorted(listed) if day >= START and day >= first]
    assert list(days(recurrence, first, LATEST)) == wanted


@pytest.mark.parametrize(
    "never",
    [
        Recurrence("daily", EARLIEST, interval=7, by_day=("MO",), count=5),  # EARLIEST is a Saturday
        Recurrence("daily", EARLIEST, interval=7, by_day=("MO",), by_month=(2,), by_month_day=(29,)),
        Recurrence("monthly", date(2026, 2, 1), interval=12, by_month_day=(30,)),
        Recurrence("yearly", date(2001, 1, 1), interval=4, by_month=(2,), by_month_day=(29,)),
        Recurrence("monthly", date(2099, 12, 1), by_day=("3TH",), by_month_day=(1,)),
        Recurrence("daily", EARLIEST, until=EARLIEST, except_dates=(EARLIEST,)),
        Recurrence("monthly", EARLIEST, by_day=("FR",), by_set_position=(6,)),
        Recurrence("weekly", EARLIEST, by_day=("MO",), by_month=(12,), by_set_position=(2,)),
        Recurrence("yearly", EARLIEST, by_day=("-1SU", "5MO"), by_month_day=(1, 13), by_month=tuple(range(1, 13))),
    ],
    ids=str,
)
def test_recurrence_without_any_day_ends_quickly(never: Recurrence) -> None:
    check(never)
    started = process_time()
    assert list(days(never, EARLIEST, LATEST)) == []
    assert process_time() - started < 0.5


@given(rule=rules(), lead=st.integers(0, 400))
def test_recurrence_has_exactly_its_matching_days(rule: Recurrence, lead: int) -> None:
    check(rule)
    first, last = rule.start_date + timedelta(days=lead), rule.start_date + timedelta(days=1000)
    assert list(days(rule, first, last)) == [day for day in by_trying(rule, last) if day >= first]


@given(rule=rules(), lead=st.integers(0, 400))
def test_recurrence_has_the_days_that_dateutil_finds(rule: Recurrence, lead: int) -> None:
    first, last = rule.start_date + timedelta(days=lead), rule.start_date + timedelta(days=2000)
    found = list(days(rule, first, last))
    # dateutil searches until the year 9999 for what never happens.
    assume(found and not (rule.by_day and rule.by_month_day))
    assert found == [day for day in by_dateutil(rule, last) if day >= first]
