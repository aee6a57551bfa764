"""The recurrence of the days before those of another one, if there is one: for windows that start on the day before.

A day of the month becomes the one before it. The 1st becomes the last day of the month before, so that the months of a
rule move too; days that some months lack (the 29th and later), and positions in months, have no such equivalent. A
counted weekday is a weekday on certain days of the month: the fourth Thursday is a Thursday from the 22nd to the 28th.
"""

from calendar import monthrange
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from integrations.calendars.rules import without_week_start
from rules.time.recurrence import LATEST, WEEKDAYS, Recurrence, days

_DAY = timedelta(days=1)
_COMMON_YEAR = 2001


def one_day_earlier(recurrence: Recurrence) -> Recurrence | None:
    """Return the recurrence of the days before those of another; None if no recurrence has them."""
    first = next(days(replace(recurrence, except_dates=()), recurrence.start_date, LATEST), None)
    if first is None:
        return None
    moved = replace(
        recurrence,
        start_date=first - _DAY,
        until=recurrence.until and recurrence.until - _DAY,
        except_dates=tuple(day - _DAY for day in recurrence.except_dates),
        by_day=tuple(WEEKDAYS[WEEKDAYS.index(text[-2:]) - 1] for text in recurrence.by_day),
    )
    if recurrence.frequency in {"monthly", "yearly"}:
        return _in_months(recurrence, moved)
    if recurrence.by_month or recurrence.by_month_day:
        return None
    return without_week_start(replace(moved, week_start=WEEKDAYS[WEEKDAYS.index(recurrence.week_start) - 1]))


def _in_months(recurrence: Recurrence, moved: Recurrence) -> Recurrence | None:
    """Return a moved recurrence with the days of the month and the months before those of another one."""
    months = recurrence.by_month or ((recurrence.start_date.month,) if recurrence.frequency == "yearly" else ())
    month_days = _month_days(recurrence)
    if recurrence.by_set_position or month_days is None:
        return None
    shortest = min(monthrange(_COMMON_YEAR, month)[1] for month in months or range(1, 13))
    inside = [day for day in month_days if 1 - shortest <= day <= shortest and day != 1]
    if not {*month_days} <= {*inside, 1}:
        return None
    before = tuple(day - 1 for day in inside)
    if month_days and len(inside) == len(month_days):
        return replace(moved, by_month_day=before, by_month=months)
    if recurrence.frequency == "monthly" and recurrence.interval == 1 and not months:
        return replace(moved, by_month_day=(-1, *before) if month_days else ())
    if inside or not month_days or (recurrence.interval > 1 and 1 in months and len(months) > 1):
        return None
    return replace(moved, by_month_day=(-1,), by_month=tuple((month - 2) % 12 + 1 for month in months))


def _month_days(recurrence: Recurrence) -> Sequence[int] | None:
    """Return the days of the month to which a recurrence is restricted, empty for all; None if weekdays have others."""
    ordinals = [int(text[:-2]) for text in recurrence.by_day if text[:-2]]
    if not ordinals:
        start = () if recurrence.by_day else (recurrence.start_date.day,)
        return recurrence.by_month_day or start
    if len({text[-2:] for text in recurrence.by_day}) > 1 or recurrence.by_month_day:
        return None
    firsts = [7 * ordinal - 6 if ordinal > 0 else 7 * ordinal for ordinal in ordinals]
    return sorted({day for first in firsts for day in range(first, first + 7) if abs(day) <= 31})
