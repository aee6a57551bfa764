"""Days on which a schedule's windows start: RFC 5545's recurrence rules, restricted by an allowlist.

python-dateutil expands the rules, except steps of days and plain steps of weekdays, which are computed here in a tenth
of the time and only up to the requested day. Only rules that all calendar libraries interpret alike, and whose
expansion ends, are allowed:

- Frequencies from `daily` on. `SECONDLY` and similar ones with a condition that never holds search for ever.
- Ordinals of weekdays (`-1FR`) only in months, since libraries disagree about what they count in otherwise; and either
  every weekday with one or none, since python-dateutil takes `MO,2TU` for days that are both.
- `yearly` with days of the month only with months, and with weekdays only with months: python-dateutil, rrule.js and
  libical expand them differently without.
- Days that none of the given months has are rejected, instead of being searched for.

`dates` is not a rule of RFC 5545, but corresponds to its RDATE: a list of days, for example holidays.

Weeks start on Monday. A month without the 31st is skipped; -1 is its last day. The work is bounded for any input: days
lie between `EARLIEST` and `LATEST`, and a rule is expanded only up to a given day.
Pure: dates without zone or clock. https://www.rfc-editor.org/rfc/rfc5545#section-3.3.10
"""

import re
from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Any, Literal

from dateutil import rrule

from rules.errors import Detail, ServiceError

Frequency = Literal["once", "daily", "weekly", "monthly", "yearly", "dates"]

EARLIEST, LATEST = date(2000, 1, 1), date(2100, 1, 1)
"""The first day on which a schedule may start, and the first on which it may not."""
MAX_INTERVAL = 1000
MAX_COUNT = 10_000
MAX_DATES = 1000
MIDNIGHT = time()

_FREQUENCIES: dict[str, Any] = {
    "weekly": rrule.WEEKLY,
    "monthly": rrule.MONTHLY,
    "yearly": rrule.YEARLY,
}
_STEPS = {"daily": 1, "weekly": 7}
"""Days per step of frequencies that step by days."""
_MONTHS = {"monthly": 1, "yearly": 12}
"""Months per step of the others."""
_WEEKDAYS = {
    "MO": rrule.MO,
    "TU": rrule.TU,
    "WE": rrule.WE,
    "TH": rrule.TH,
    "FR": rrule.FR,
    "SA": rrule.SA,
    "SU": rrule.SU,
}
_WEEKDAY_NAMES = tuple(_WEEKDAYS)
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


def days(recurrence: Recurrence, first: date, last: date) -> Iterator[date]:
    """Yield the days from `first` to `last`, both inclusive, on which windows start, in order."""
    if recurrence.frequency == "once":
        if first <= recurrence.start_date <= last:
            yield recurrence.start_date
        return
    if recurrence.frequency == "dates":
        yield from sorted(day for day in set(recurrence.dates) if max(first, recurrence.start_date) <= day <= last)
        return
    start, end = _near(recurrence, first), min(last, recurrence.until or last)
    for day in islice(_followed(recurrence, start, end), recurrence.count):
        if day >= first:
            yield day


def _near(recurrence: Recurrence, first: date) -> date:
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


def _followed(recurrence: Recurrence, start: date, end: date) -> Iterator[date]:
    """Yield the days of a rule between two days, regardless of its count."""
    if recurrence.frequency == "daily":
        each = map(date.fromordinal, range(start.toordinal(), end.toordinal() + 1, recurrence.interval))
        names = recurrence.by_day or recurrence.by_month or recurrence.by_month_day
        return (day for day in each if _is_named(recurrence, day)) if names else each
    if recurrence.by_month or recurrence.by_month_day or recurrence.frequency not in _STEPS:
        found = (moment.date() for moment in _rule(recurrence, start, end))
        if recurrence.by_day and recurrence.by_month_day:
            return (day for day in found if not _as_weekdays(day).isdisjoint(recurrence.by_day))
        return found
    weekdays = sorted({_weekday(text).weekday for text in recurrence.by_day})
    return _of_weeks(start, end, recurrence.interval, weekdays or [start.weekday()])


def _is_named(recurrence: Recurrence, day: date) -> bool:
    """True if a daily rule is not restricted to other days."""
    from_end = day.day - monthrange(day.year, day.month)[1] - 1
    return (
        (not recurrence.by_day or _WEEKDAY_NAMES[day.weekday()] in recurrence.by_day)
        and (not recurrence.by_month or day.month in recurrence.by_month)
        and (not recurrence.by_month_day or not {day.day, from_end}.isdisjoint(recurrence.by_month_day))
    )


def _as_weekdays(day: date) -> set[str]:
    """Return the weekday names of a day: `FR`, and with its ordinal in the month, from both ends."""
    name, length = _WEEKDAY_NAMES[day.weekday()], monthrange(day.year, day.month)[1]
    ordinal = (day.day - 1) // 7 + 1
    return {name, f"{ordinal}{name}", f"+{ordinal}{name}", f"-{(length - day.day) // 7 + 1}{name}"}


def _of_weeks(start: date, end: date, interval: int, weekdays: Sequence[int]) -> Iterator[date]:
    """Yield the weekdays of every `interval`-th week, the first of which is that of `start`."""
    first, last = start.toordinal(), end.toordinal()
    for monday in range(first - start.weekday(), last + 1, 7 * interval):
        for number in (monday + weekday for weekday in weekdays):
            if first <= number <= last:
                yield date.fromordinal(number)


def _rule(recurrence: Recurrence, start: date, end: date) -> rrule.rrule:
    """Return the rule until a day, without what is left to the caller, since it would be searched for until year 9999.

    That is its count, which may never be reached, and weekdays beside days of the month, which may never meet.
    """
    month_days, months = recurrence.by_month_day, recurrence.by_month
    if recurrence.frequency in _MONTHS and not recurrence.by_day and not month_days:
        # What it leaves open is as on its first day, which need not be the one that it is followed from.
        month_days = (recurrence.start_date.day,)
        months = months or ((recurrence.start_date.month,) if recurrence.frequency == "yearly" else ())
    return rrule.rrule(
        _FREQUENCIES[recurrence.frequency],
        dtstart=datetime.combine(start, MIDNIGHT),
        interval=recurrence.interval,
        wkst=rrule.MO,
        byweekday=None if month_days else [_weekday(text) for text in recurrence.by_day] or None,
        bymonthday=list(month_days) or None,
        bymonth=list(months) or None,
        until=datetime.combine(end, MIDNIGHT),
    )


def _weekday(text: str) -> rrule.weekday:
    found = _BY_DAY.fullmatch(text)
    assert found is not None, f"{text!r} has not been through check()"
    ordinal, name = found.groups()
    return _WEEKDAYS[name](int(ordinal)) if ordinal else _WEEKDAYS[name]


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
    yield from _errors_of_dates(recurrence)
    if not _is_near(recurrence.start_date):
        yield "startDate", f"must be from {EARLIEST} on, and before {LATEST}"


def _is_near(day: date) -> bool:
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
    elif not all(map(_is_near, listed)):
        yield "dates", f"must be from {EARLIEST} on, and before {LATEST}"
    elif max(listed) < recurrence.start_date:
        yield "dates", "has no day from startDate on"


def _errors_of_ends(recurrence: Recurrence) -> Iterator[tuple[str, str]]:
    if not 1 <= recurrence.interval <= MAX_INTERVAL:
        yield "interval", f"must be from 1 to {MAX_INTERVAL}"
    if recurrence.until is not None and recurrence.until < recurrence.start_date:
        yield "until", "is before the start"
    if recurrence.count is not None and recurrence.until is not None:
        yield "count", "and until are mutually exclusive"
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
