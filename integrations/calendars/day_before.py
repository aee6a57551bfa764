"""The days before those of a recurrence, as recurrences: for windows that start on the day before.

A day of the month becomes the one before it. The 1st becomes the last day of the month before, so that the months of a
rule move too: a rule with the 1st and other days, such as the first Monday of May, becomes two. Days that some months
lack (the 29th and later), and positions in months, have no equivalent. A counted weekday is a weekday on certain days
of the month: the fourth Thursday is a Thursday from the 22nd to the 28th.
"""

from calendar import monthrange
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

from integrations.calendars.rules import without_week_start
from rules.time.recurrence import LATEST, WEEKDAYS, Recurrence, days

_DAY = timedelta(days=1)
_COMMON_YEAR = 2001


def one_day_earlier(recurrence: Recurrence) -> Sequence[Recurrence]:
    """Return the recurrences that together have the days before those of another; none if there are no such ones."""
    moved = _moved(recurrence)
    if moved is not None:
        return [moved]
    parts = [part for part in _split(recurrence) if _first(part)]
    found = [_moved(part) for part in parts]
    return [part for part in found if part] if all(found) else []


def _first(recurrence: Recurrence) -> date | None:
    return next(days(replace(recurrence, except_dates=()), recurrence.start_date, LATEST), None)


def _moved(recurrence: Recurrence) -> Recurrence | None:
    """Return the single recurrence of the days before those of another; None if there is none."""
    first = _first(recurrence)
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
        return _moved_in_months(recurrence, moved)
    if recurrence.by_month or recurrence.by_month_day:
        return None
    return without_week_start(replace(moved, week_start=WEEKDAYS[WEEKDAYS.index(recurrence.week_start) - 1]))


def _moved_in_months(recurrence: Recurrence, moved: Recurrence) -> Recurrence | None:
    """Return a moved recurrence with the days of the month and the months before those of another one."""
    months, month_days = _months(recurrence), _month_days(recurrence)
    is_every_month = recurrence.frequency == "monthly" and recurrence.interval == 1 and not months
    if month_days is None or not _have_day_before(months, month_days):
        return None
    if not month_days:
        return moved if is_every_month else None
    by_month_day = tuple(-1 if day == 1 else day - 1 for day in month_days)
    if 1 not in month_days or is_every_month:
        return replace(moved, by_month_day=by_month_day, by_month=months)
    if len(month_days) > 1 or (recurrence.interval > 1 and 1 in months and len(months) > 1):
        return None
    return replace(moved, by_month_day=by_month_day, by_month=tuple((month - 2) % 12 + 1 for month in months))


def _split(recurrence: Recurrence) -> Sequence[Recurrence]:
    """Return the first of the month and the other days of a recurrence as two; none if these cannot be parted."""
    months, month_days = _months(recurrence), _month_days(recurrence) or ()
    others = tuple(day for day in month_days if day != 1)
    if recurrence.count is not None or len(others) == len(month_days):
        return []
    by_day = tuple(text[-2:] for text in recurrence.by_day)
    whole = replace(recurrence, by_day=by_day, by_month=months)
    return [replace(whole, by_month_day=others), replace(whole, by_month_day=(1,))]


def _have_day_before(months: Sequence[int], month_days: Sequence[int]) -> bool:
    """True if all of the months have the days of the month, and these are the 1st or later."""
    shortest = min(monthrange(_COMMON_YEAR, month)[1] for month in months or range(1, 13))
    return all(1 - shortest <= day <= shortest for day in month_days)


def _months(recurrence: Recurrence) -> tuple[int, ...]:
    """Return the months to which a recurrence is restricted; empty for all of them."""
    return recurrence.by_month or ((recurrence.start_date.month,) if recurrence.frequency == "yearly" else ())


def _month_days(recurrence: Recurrence) -> Sequence[int] | None:
    """Return the days of the month to which a recurrence is restricted, empty for all of them.

    None if it has positions, or if its weekdays are on different days.
    """
    if recurrence.by_set_position or recurrence.frequency not in {"monthly", "yearly"}:
        return None
    ordinals = [int(text[:-2]) for text in recurrence.by_day if text[:-2]]
    if not ordinals:
        start = () if recurrence.by_day else (recurrence.start_date.day,)
        return recurrence.by_month_day or start
    if len({text[-2:] for text in recurrence.by_day}) > 1 or recurrence.by_month_day:
        return None
    firsts = [7 * ordinal - 6 if ordinal > 0 else 7 * ordinal for ordinal in ordinals]
    return sorted({day for first in firsts for day in range(first, first + 7) if abs(day) <= 31})
