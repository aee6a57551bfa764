"""Remarks of a preview: what is easily overlooked in the terms of a schedule."""

from collections.abc import Iterator
from datetime import timedelta
from zoneinfo import ZoneInfo

from models.schedules import Schedule
from rules.freezes.scope import OPEN_ENDED
from rules.time.period_ends import first_missed_end
from rules.time.wall_clock import local_time
from services.core.unit_of_work import UnitOfWork
from services.schedules.terms import is_over, recurrence_of, window_of

_AHEAD = timedelta(days=800)
"""How far ahead windows are looked at."""


def remarks_on(
    uow: UnitOfWork, schedule: Schedule, branches: int | None, *, has_windows: bool
) -> Iterator[dict[str, str]]:
    """Yield the remarks on a schedule, stored or not; `branches` is how many it covers now, None without a scope."""
    if is_over(schedule, uow.now):
        yield _remark("over", "All windows of these terms have ended: the schedule starts no freeze.")
    elif not has_windows:
        yield _remark("far_ahead", "No window begins within ten years.")
    if branches is not None and schedule.scope["type"] in OPEN_ENDED:
        of = "of the organisation" if schedule.scope["type"] == "organization" else "that match"
        message = f"Each window freezes all watched branches {of}: {branches} now, and those that are watched later."
        yield _remark("open_ended", message)
    today = local_time(uow.now, ZoneInfo(schedule.timezone)).date()
    recurrence, window = recurrence_of(schedule.recurrence), window_of(schedule.window)
    missed = first_missed_end(recurrence, window, today, today + _AHEAD)
    if missed is not None:
        message = (
            f"The window that begins on {missed.begins_on} ends before {missed.last_day}, the last of the days that "
            "are counted in its period: a window lasts a number of days in a row, weekends included."
        )
        yield _remark("last_day_missed", message)


def _remark(code: str, message: str) -> dict[str, str]:
    return {"code": code, "message": message}
