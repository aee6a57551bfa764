"""The days of a recurrence: known ones, what is refused and why, and two oracles.

One tries every single day, the other is python-dateutil.
"""

from calendar import monthrange
from datetime import date, datetime, time, timedelta
from itertools import islice
from time import process_time
from typing import Any

import pytest
from dateutil import rrule
from hypothesis import assume, given
from hypothesis import strategies as st

from rules.errors import ServiceError
from rules.time.recurrence import EARLIEST, LATEST, Frequency, Recurrence, check, days

START = date(2026, 1, 1)  # a Thursday
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


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


PLAIN = st.sets(st.sampled_from(WEEKDAYS), max_size=3)
ORDINALS = st.sampled_from(["1", "2", "-1", "-2", "5", "+3"])
COUNTED = st.sets(st.tuples(ORDINALS, st.sampled_from(WEEKDAYS)).map("".join), max_size=3)


@st.composite
def rules(draw: st.DrawFn) -> Recurrence:
    """Draw a rule that is let through."""
    frequency: Frequency = draw(st.sampled_from(["daily", "weekly", "monthly", "yearly"]))
    in_months = frequency in {"monthly", "yearly"}
    months = tuple(draw(st.sets(st.integers(1, 12), max_size=3)))
    named = frequency != "yearly" or months
    by_day = draw(PLAIN | COUNTED if in_months else PLAIN) if named else ()
    month_days = draw(st.sets(st.integers(-31, 28).filter(bool), max_size=2)) if named and frequency != "weekly" else ()
    start = draw(st.dates(date(2024, 1, 1), date(2027, 12, 31)))
    positions = st.sets(st.sampled_from([1, 2, 3, 5, 7, -1, -2, -6]), max_size=2)
    return Recurrence(
        frequency,
        start,
        draw(st.integers(1, 5)),
        tuple(by_day),
        tuple(month_days),
        months,
        count=draw(st.none() | st.integers(1, 20)),
        by_set_position=tuple(draw(positions)) if frequency != "daily" and (by_day or month_days) else (),
        week_start=draw(st.sampled_from(WEEKDAYS)) if frequency == "weekly" else "MO",
        except_dates=tuple(draw(st.sets(st.dates(start, start + timedelta(days=60)), max_size=9))),
    )


def by_trying(rule: Recurrence, last: date) -> list[date]:
    """Return the days of a rule by asking of every single day of its periods whether it is one."""
    first, final = _period_of(rule, rule.start_date), _period_of(rule, last) + timedelta(days=366)
    every = (first + timedelta(days=lag) for lag in range((final - first).days))
    periods: dict[date, list[date]] = {}
    for day in every:
        if _in_period(rule, day) and _fits(rule, day):
            periods.setdefault(_period_of(rule, day), []).append(day)
    found = [
        day
        for period in periods.values()
        for place, day in enumerate(period)
        if not rule.by_set_position or not {place + 1, place - len(period)}.isdisjoint(rule.by_set_position)
    ]
    counted = [day for day in found if rule.start_date <= day <= last][: rule.count]
    return [day for day in counted if day not in rule.except_dates]


def _in_period(rule: Recurrence, day: date) -> bool:
    start = rule.start_date
    apart: dict[str, Any] = {
        "daily": (day - start).days,
        "weekly": (_period_of(rule, day) - _period_of(rule, start)).days // 7,
        "monthly": (day.year - start.year) * 12 + day.month - start.month,
        "yearly": day.year - start.year,
    }
    return bool(apart[rule.frequency] % rule.interval == 0)


def _period_of(rule: Recurrence, day: date) -> date:
    """Return the first day of a day's period."""
    if rule.frequency == "weekly":
        return day - timedelta(days=(day.weekday() - WEEKDAYS.index(rule.week_start)) % 7)
    return (
        day if rule.frequency == "daily" else day.replace(day=1, month=1 if rule.frequency == "yearly" else day.month)
    )


def _fits(rule: Recurrence, day: date) -> bool:
    length = monthrange(day.year, day.month)[1]
    ordinals = {"", str((day.day - 1) // 7 + 1), f"+{(day.day - 1) // 7 + 1}", str(-((length - day.day) // 7 + 1))}
    weekdays = {ordinal + WEEKDAYS[day.weekday()] for ordinal in ordinals}
    start, month_days = rule.start_date, {day.day, day.day - length - 1}
    conditions = [
        not rule.by_month or day.month in rule.by_month,
        not rule.by_day or not weekdays.isdisjoint(rule.by_day),
        not rule.by_month_day or not month_days.isdisjoint(rule.by_month_day),
    ]
    if not rule.by_day and not rule.by_month_day:  # what the rule leaves open is as on its first day
        conditions.append(rule.frequency != "weekly" or day.weekday() == start.weekday())
        conditions.append(rule.frequency not in {"monthly", "yearly"} or day.day == start.day)
        conditions.append(rule.frequency != "yearly" or bool(rule.by_month) or day.month == start.month)
    return all(conditions)


@given(rule=rules(), lead=st.integers(0, 400))
def test_recurrence_has_exactly_its_matching_days(rule: Recurrence, lead: int) -> None:
    check(rule)
    first, last = rule.start_date + timedelta(days=lead), rule.start_date + timedelta(days=1000)
    assert list(days(rule, first, last)) == [day for day in by_trying(rule, last) if day >= first]


def by_dateutil(rule: Recurrence, last: date) -> list[date]:
    """Return the days of a rule as python-dateutil finds them.

    It counts the positions of the first week only from the start, so that it is expanded from the first day of that
    week. It takes what the rule leaves open from its own start, so that this is given.
    """
    start, months, month_days, by_day = rule.start_date, rule.by_month, rule.by_month_day, rule.by_day
    if rule.frequency == "weekly":
        by_day = by_day or (WEEKDAYS[start.weekday()],)
    elif rule.frequency != "daily" and not by_day and not month_days:
        month_days = (start.day,)
        months = months or ((start.month,) if rule.frequency == "yearly" else ())
    first = _period_of(rule, start) if rule.frequency == "weekly" else start
    found = rrule.rrule(
        FREQUENCIES[rule.frequency],
        dtstart=datetime.combine(first, time()),
        interval=rule.interval,
        wkst=WEEKDAYS.index(rule.week_start),
        byweekday=[_weekday(text) for text in by_day] or None,
        bymonthday=month_days or None,
        bymonth=months or None,
        bysetpos=rule.by_set_position or None,
        until=datetime.combine(last, time()),
    )
    from_start = (moment.date() for moment in found if moment.date() >= start)
    return [day for day in islice(from_start, rule.count) if day not in rule.except_dates]


def _weekday(text: str) -> rrule.weekday:
    weekday: rrule.weekday = getattr(rrule, text[-2:])
    return weekday(int(text[:-2])) if text[:-2] else weekday


FREQUENCIES: dict[str, Any] = {
    "daily": rrule.DAILY,
    "weekly": rrule.WEEKLY,
    "monthly": rrule.MONTHLY,
    "yearly": rrule.YEARLY,
}


@given(rule=rules(), lead=st.integers(0, 400))
def test_recurrence_has_the_days_that_dateutil_finds(rule: Recurrence, lead: int) -> None:
    first, last = rule.start_date + timedelta(days=lead), rule.start_date + timedelta(days=2000)
    found = list(days(rule, first, last))
    # dateutil searches until the year 9999 for what never happens.
    assume(found and not (rule.by_day and rule.by_month_day))
    assert found == [day for day in by_dateutil(rule, last) if day >= first]
