"""Days on which a schedule's windows start: RFC 5545's recurrence rules, restricted by an allowlist.

A rule is expanded period by period: a day, week, month or year, of which every `interval`-th counts from the period of
the start date. `by_set_position` picks from the days of a whole period, also from those before the start date or after
the end, which are left out afterwards. Only rules that all calendar libraries interpret alike are allowed:

- Frequencies from `daily` on.
- Ordinals of weekdays (`-1FR`) only in months, since libraries disagree about what they count in otherwise; and either
  every weekday with one or none, since libraries take `MO,2TU` for different days.
- `yearly` with days of the month only with months, and with weekdays only with months: python-dateutil, rrule.js and
  libical expand them differently without.
- Days that none of the given months has are rejected, and so are positions that no period has.

`dates` is not a rule of RFC 5545, but corresponds to its RDATE: a list of days, for example holidays. `except_dates`
corresponds to EXDATE: these days count for `count`, but have no window.

A month without the 31st is skipped; -1 is its last day. The work is bounded for any input: days lie between `EARLIEST`
and `LATEST`, and a rule is expanded only up to a given day.
Pure: dates without zone or clock. https://www.rfc-editor.org/rfc/rfc5545#section-3.3.10
"""

import re
from calendar import monthrange
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import chain, islice
from typing import Literal

from rules.errors import Detail, ServiceError

Frequency = Literal["once", "daily", "weekly", "monthly", "yearly", "dates"]

EARLIEST, LATEST = date(2000, 1, 1), date(2100, 1, 1)
"""The first day on which a schedule may start, and the first on which it may not."""
MAX_INTERVAL = 1000
MAX_COUNT = 10_000
MAX_DATES = 1000
MAX_EXCEPT_DATES = 1000
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

_STEPS = {"daily": 1, "weekly": 7}
"""Days per step of frequencies that step by days."""
_MONTHS = {"monthly": 1, "yearly": 12}
"""Months per step of the others."""
_POSITIONS = {"weekly": 7, "monthly": 31, "yearly": 366}
"""The most days that a period has."""
_BY_DAY = re.compile(r"([+-]?[1-5])?(MO|TU|WE|TH|FR|SA|SU)")
_LONGEST_MONTH = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The days on which windows start; `by_day` as in RFC 5545 (`MO`, `-1FR`), `until` inclusive."""

    frequency: Frequency
    start_date: date
    interval: int = 1
    by_day: tuple[str, ...] = ()
    by_month_day: tuple[int, ...] = ()
    by_month: tuple[int, ...] = ()
    until: date | None = None
    count: int | None = None
    dates: tuple[date, ...] = ()
    by_set_position: tuple[int, ...] = ()
    week_start: str = "MO"
    except_dates: tuple[date, ...] = ()


def days(recurrence: Recurrence, first: date, last: date) -> Iterator[date]:
    """Yield the days from `first` to `last`, both inclusive, on which windows start, in order."""
    if recurrence.frequency == "once":
        if first <= recurrence.start_date <= last:
            yield recurrence.start_date
        return
    if recurrence.frequency == "dates":
        yield from sorted(day for day in set(recurrence.dates) if max(first, recurrence.start_date) <= day <= last)
        return
    start, end = _expansion_start(recurrence, first), min(last, recurrence.until or last)
    left_out = set(recurrence.except_dates)
    for day in islice(_days_of_rule(recurrence, start, end), recurrence.count):
        if day >= first and day not in left_out:
            yield day


def _expansion_start(recurrence: Recurrence, first: date) -> date:
    """Return a day not after `first` from which the rule can be expanded, so that past years are skipped."""
    start, interval = recurrence.start_date, recurrence.interval
    if recurrence.count is not None or first <= start:
        return start
    if recurrence.frequency in _STEPS:
        return first - timedelta(days=(first - start).days % (interval * _STEPS[recurrence.frequency]))
    apart = (first.year - start.year) * 12 + first.month - start.month
    months = apart - apart % (interval * _MONTHS[recurrence.frequency])
    year, month = divmod(start.month - 1 + months, 12)
    return date(start.year + year, month + 1, 1) if months else start


def _days_of_rule(recurrence: Recurrence, start: date, end: date) -> Iterator[date]:
    """Yield the days of a rule between two days, regardless of its count and exceptions."""
    if recurrence.frequency == "daily":
        each = map(date.fromordinal, range(start.toordinal(), end.toordinal() + 1, recurrence.interval))
        names = recurrence.by_day or recurrence.by_month or recurrence.by_month_day
        return (day for day in each if _is_named(recurrence, day)) if names else each
    periods = _weeks(recurrence, start, end) if recurrence.frequency == "weekly" else _months(recurrence, start, end)
    if recurrence.by_set_position:
        periods = (_at_positions(period, recurrence.by_set_position) for period in periods)
    return (day for day in chain.from_iterable(periods) if start <= day <= end)


def _is_named(recurrence: Recurrence, day: date) -> bool:
    """True if a daily rule is not restricted to other days."""
    from_end = day.day - monthrange(day.year, day.month)[1] - 1
    return (
        (not recurrence.by_day or WEEKDAYS[day.weekday()] in recurrence.by_day)
        and (not recurrence.by_month or day.month in recurrence.by_month)
        and (not recurrence.by_month_day or not {day.day, from_end}.isdisjoint(recurrence.by_month_day))
    )


def _weeks(recurrence: Recurrence, start: date, end: date) -> Iterator[Sequence[date]]:
    """Yield the days of every `interval`-th week; the first week is that of `start`."""
    week_start = WEEKDAYS.index(recurrence.week_start)
    weekdays = {WEEKDAYS.index(name) for name in recurrence.by_day} or {start.weekday()}
    offsets = sorted((weekday - week_start) % 7 for weekday in weekdays)
    first_week = start.toordinal() - (start.weekday() - week_start) % 7
    for first in range(first_week, end.toordinal() + 1, 7 * recurrence.interval):
        week = [date.fromordinal(first + offset) for offset in offsets]
        yield [day for day in week if day.month in recurrence.by_month] if recurrence.by_month else week


def _months(recurrence: Recurrence, start: date, end: date) -> Iterator[Sequence[date]]:
    """Yield the days of every `interval`-th month or year; the first one is that of `start`."""
    weekdays = [_weekday(text) for text in recurrence.by_day]
    month_days = recurrence.by_month_day
    if not weekdays and not month_days:
        month_days = (recurrence.start_date.day,)  # `start` need not be on the day of the first window
    if recurrence.frequency == "yearly":
        months = sorted(set(recurrence.by_month)) or [recurrence.start_date.month]
        for year in range(start.year, end.year + 1, recurrence.interval):
            yield [day for month in months for day in _days_of_month(year, month, weekdays, month_days)]
        return
    for number in range(12 * start.year + start.month - 1, 12 * end.year + end.month, recurrence.interval):
        year, month = number // 12, number % 12 + 1
        if not recurrence.by_month or month in recurrence.by_month:
            yield _days_of_month(year, month, weekdays, month_days)


def _days_of_month(
    year: int, month: int, weekdays: Iterable[tuple[int, int]], month_days: Iterable[int]
) -> Sequence[date]:
    """Return the days of a month that are weekdays of a rule and days of the month of it; empty ones allow all days."""
    first, length = monthrange(year, month)
    numbers = set(range(1, length + 1))
    if month_days:
        numbers &= {day if day > 0 else length + 1 + day for day in month_days}
    if weekdays:
        numbers &= {
            day for ordinal, weekday in weekdays for day in _counted(ordinal, (weekday - first) % 7 + 1, length)
        }
    return [date(year, month, number) for number in sorted(numbers)]


def _counted(ordinal: int, first: int, length: int) -> Sequence[int]:
    """Return the days of a weekday in a month: all of them for 0, the first of which is `first`, or one or none."""
    every = range(first, length + 1, 7)
    if ordinal == 0:
        return every
    return every[ordinal - 1 : ordinal] if ordinal > 0 else every[ordinal : ordinal + 1 or None]


def _at_positions(period: Sequence[date], positions: Iterable[int]) -> Sequence[date]:
    """Return the days of a period at positions, which count from 1, or from -1 at the end."""
    count = len(period)
    indexes = {position - 1 if position > 0 else count + position for position in positions}
    return [period[index] for index in sorted(indexes) if 0 <= index < count]


def _weekday(text: str) -> tuple[int, int]:
    """Return the ordinal of a weekday, 0 for every one, and its number."""
    found = _BY_DAY.fullmatch(text)
    assert found is not None, f"{text!r} has not been through check()"
    ordinal, name = found.groups()
    return int(ordinal or 0), WEEKDAYS.index(name)


def check(recurrence: Recurrence) -> None:
    """Raise `invalid_recurrence`, with all invalid fields, if a recurrence is not supported."""
    errors = list(_errors(recurrence))
    if errors:
        details = tuple(Detail(f"/recurrence/{field}", message, "invalid_recurrence") for field, message in errors)
        raise ServiceError("invalid_recurrence", f"recurrence.{errors[0][0]} {errors[0][1]}.", details=details)


def _errors(recurrence: Recurrence) -> Iterator[tuple[str, str]]:
    if recurrence.frequency in {"once", "dates"}:
        yield from _errors_of_rule_fields(recurrence)
    else:
        yield from _errors_of_ends(recurrence)
        yield from _errors_of_days(recurrence)
        yield from _errors_of_positions(recurrence)
        yield from _errors_of_except_dates(recurrence.except_dates)
    yield from _errors_of_dates(recurrence)
    if not _is_supported_day(recurrence.start_date):
        yield "startDate", f"must be from {EARLIEST} on, and before {LATEST}"


def _is_supported_day(day: date) -> bool:
    return EARLIEST <= day < LATEST


def _errors_of_rule_fields(recurrence: Recurrence) -> Iterator[tuple[str, str]]:
    """Yield errors for rule fields of a recurrence without a rule."""
    given = {
        "interval": recurrence.interval != 1,
        "byDay": bool(recurrence.by_day),
        "byMonthDay": bool(recurrence.by_month_day),
        "byMonth": bool(recurrence.by_month),
        "until": recurrence.until is not None,
        "count": recurrence.count is not None,
        "bySetPosition": bool(recurrence.by_set_position),
        "weekStart": recurrence.week_start != "MO",
        "exceptDates": bool(recurrence.except_dates),
    }
    what = "the frequency once" if recurrence.frequency == "once" else "listed dates"
    for field in (name for name, is_given in given.items() if is_given):
        yield field, f"is not allowed with {what}"


def _errors_of_dates(recurrence: Recurrence) -> Iterator[tuple[str, str]]:
    listed = recurrence.dates
    if recurrence.frequency != "dates":
        if listed:
            yield "dates", "is only allowed with the frequency dates"
    elif not 1 <= len(listed) <= MAX_DATES:
        yield "dates", f"must list 1 to {MAX_DATES} days"
    elif len(set(listed)) < len(listed):
        yield "dates", "must list each day only once"
    elif not all(map(_is_supported_day, listed)):
        yield "dates", f"must be from {EARLIEST} on, and before {LATEST}"
    elif max(listed) < recurrence.start_date:
        yield "dates", "has no day from startDate on"


def _errors_of_except_dates(listed: Sequence[date]) -> Iterator[tuple[str, str]]:
    if len(listed) > MAX_EXCEPT_DATES:
        yield "exceptDates", f"must list at most {MAX_EXCEPT_DATES} days"
    elif len(set(listed)) < len(listed):
        yield "exceptDates", "must list each day only once"
    elif not all(map(_is_supported_day, listed)):
        yield "exceptDates", f"must be from {EARLIEST} on, and before {LATEST}"


def _errors_of_ends(recurrence: Recurrence) -> Iterator[tuple[str, str]]:
    if not 1 <= recurrence.interval <= MAX_INTERVAL:
        yield "interval", f"must be from 1 to {MAX_INTERVAL}"
    if recurrence.until is not None and recurrence.until < recurrence.start_date:
        yield "until", "is before the start"
    if recurrence.count is not None and recurrence.until is not None:
        yield "count", "cannot be combined with until"
    if recurrence.count is not None and not 1 <= recurrence.count <= MAX_COUNT:
        yield "count", f"must be from 1 to {MAX_COUNT}"


def _errors_of_days(recurrence: Recurrence) -> Iterator[tuple[str, str]]:
    parsed = [(text, _BY_DAY.fullmatch(text)) for text in recurrence.by_day]
    frequency, months = recurrence.frequency, recurrence.by_month
    if wrong := [text for text, found in parsed if found is None]:
        yield "byDay", f"must contain weekdays such as MO or -1FR; {wrong[0]!r} is not one"
    elif len({bool(found and found[1]) for _text, found in parsed}) > 1:
        yield "byDay", "must use ordinals for all weekdays (1MO) or for none (MO)"
    elif any(found is not None and found[1] for _text, found in parsed) and frequency in {"daily", "weekly"}:
        yield "byDay", f"may use ordinals (-1FR) only with months, not with {frequency}"
    elif recurrence.by_day and frequency == "yearly" and not months:
        yield "byDay", "requires byMonth if the frequency is yearly"
    if any(not 1 <= month <= 12 for month in months):
        yield "byMonth", "must contain months from 1 to 12"
    yield from _errors_of_month_days(recurrence)


def _errors_of_month_days(recurrence: Recurrence) -> Iterator[tuple[str, str]]:
    month_days = recurrence.by_month_day
    if any(not 1 <= abs(day) <= 31 for day in month_days):
        yield "byMonthDay", "must contain days from 1 to 31, or from -1 to -31 counted from the end"
    elif month_days and recurrence.frequency == "weekly":
        yield "byMonthDay", "is not allowed with the frequency weekly"
    elif month_days and recurrence.frequency == "yearly" and not recurrence.by_month:
        yield "byMonthDay", "requires byMonth if the frequency is yearly"
    elif month_days and recurrence.by_month:
        longest = max(_LONGEST_MONTH.get(month, 31) for month in recurrence.by_month)
        if all(abs(day) > longest for day in month_days):
            yield "byMonthDay", "is a day that no month of byMonth has"


def _errors_of_positions(recurrence: Recurrence) -> Iterator[tuple[str, str]]:
    frequency, positions = recurrence.frequency, recurrence.by_set_position
    if recurrence.week_start not in WEEKDAYS:
        yield "weekStart", "must be a weekday such as MO"
    elif recurrence.week_start != "MO" and frequency != "weekly":
        yield "weekStart", f"is only allowed with the frequency weekly, not with {frequency}"
    if not positions:
        return
    most = _POSITIONS.get(frequency)
    if most is None:
        yield "bySetPosition", f"is not allowed with the frequency {frequency}"
    elif not recurrence.by_day and not recurrence.by_month_day:
        yield "bySetPosition", "requires byDay or byMonthDay"
    elif any(not 1 <= abs(position) <= most for position in positions):
        yield "bySetPosition", f"must contain positions from 1 to {most}, or from -1 to -{most}, if it is {frequency}"
