"""The terms of a schedule, converted from their stored form to that of the rules.

Stored are the contract's objects `Recurrence` and `ScheduleWindow` with keys in snake_case; dates and times are text.
"""

from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from models.schedules import Schedule
from rules.time.recurrence import Recurrence
from rules.time.wall_clock import Interval, Window, local_time
from rules.time.windows import are_over, expand_windows

_DATES = ("start_date", "until")
_LISTS_OF_DATES = ("dates", "except_dates")
_LISTS = ("by_day", "by_month_day", "by_month", "by_set_position")


def recurrence_of(stored: Mapping[str, Any]) -> Recurrence:
    """Return a stored recurrence as the rules use it. Raise ValueError for an invalid date."""
    given: dict[str, Any] = dict(stored)
    given |= {name: date.fromisoformat(given[name]) for name in _DATES if name in given}
    given |= {name: tuple(given[name]) for name in _LISTS if name in given}
    given |= {name: tuple(map(date.fromisoformat, given[name])) for name in _LISTS_OF_DATES if name in given}
    return Recurrence(**given)


def window_of(stored: Mapping[str, Any]) -> Window:
    """Return a stored window as the rules use it."""
    start, end = (time.fromisoformat(stored[name]) for name in ("start_time", "end_time"))
    return Window(start, end, stored.get("days", 0))


def local_day(schedule: Schedule, instant: datetime) -> date:
    """Return the day of an instant in the time zone of a schedule."""
    return local_time(instant, ZoneInfo(schedule.timezone)).date()


def is_over(schedule: Schedule, now: datetime) -> bool:
    """True if all windows of a schedule, stored or not, have ended."""
    recurrence, window = recurrence_of(schedule.recurrence), window_of(schedule.window)
    return are_over(recurrence, window, ZoneInfo(schedule.timezone), now)


def windows_of(schedule: Schedule, after: datetime, until: datetime) -> list[Interval]:
    """Return the windows of a schedule, stored or not, that end after one time and start until another."""
    recurrence, window = recurrence_of(schedule.recurrence), window_of(schedule.window)
    return expand_windows(recurrence, window, ZoneInfo(schedule.timezone), after, until)
