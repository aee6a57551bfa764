"""Windows that begin some days before the end of a period, and end before the last of the days that are counted.

"The third last working day, for three days" means the last three working days, and misses the last one wherever a
weekend lies between: a window is a number of days in a row. Pure.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from typing import NamedTuple

from rules.time.recurrence import Recurrence, days
from rules.time.wall_clock import Window

_YEAR = timedelta(days=366)


class MissedEnd(NamedTuple):
    """The day on which a window begins, and the last counted day of its period, which it does not reach."""

    begins_on: date
    last_day: date


def first_missed_end(recurrence: Recurrence, window: Window, first: date, last: date) -> MissedEnd | None:
    """Return the first window that begins from one day to another and misses the last counted day of its period.

    None if no position counts from the end, or the windows are too short to be meant to reach it.
    """
    positions = recurrence.by_set_position
    length = window.days + (window.end > time())
    if not positions or max(positions) > 0 or max(positions) < -length:
        return None
    return next(_missed_ends(recurrence, window, first, last), None)


def _missed_ends(recurrence: Recurrence, window: Window, first: date, last: date) -> Iterator[MissedEnd]:
    ends = replace(recurrence, by_set_position=(-1,), count=None, until=None, except_dates=())
    begins = [*days(recurrence, first, last), date.max]
    for day, following in pairwise(begins):
        last_day = next(days(ends, day, day + _YEAR), None)
        if last_day is None or following <= last_day:
            continue
        if window.on(day)[1] <= datetime.combine(last_day, time()):
            yield MissedEnd(day, last_day)
