"""Any recurrence, and its days as two others find them: one tries every single day, the other is python-dateutil."""

from calendar import monthrange
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Any

from dateutil import rrule
from hypothesis import strategies as st

from rules.time.recurrence import Frequency, Recurrence

START = date(2026, 1, 1)  # a Thursday
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
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
