"""Skipped windows that a change of their schedule loses, because it leaves no window on their day."""

from typing import Any

from models.schedules import Occurrence, Schedule
from services.core.unit_of_work import UnitOfWork
from services.schedules.plans import skipped_rows
from services.schedules.terms import local_day


class Skips:
    """The coming windows of a locked schedule that people have skipped, before it is changed."""

    def __init__(self, uow: UnitOfWork, schedule: Schedule) -> None:
        self._uow, self._schedule = uow, schedule
        self._before = {
            row.id: (local_day(schedule, row.starts_at), row.starts_at, row.ends_at) for row in self._coming()
        }

    def lost(self) -> list[dict[str, Any]]:
        """Return the times of those that are skipped no more after the change, earliest first."""
        if not self._before:
            return []
        left = self._coming()
        ids, days = {row.id for row in left}, {local_day(self._schedule, row.starts_at) for row in left}
        lost = [(start, end) for key, (day, start, end) in self._before.items() if key not in ids and day not in days]
        return [{"starts_at": start, "ends_at": end} for start, end in sorted(lost)]

    def _coming(self) -> list[Occurrence]:
        self._uow.session.flush()
        return [row for row in skipped_rows(self._uow, self._schedule.id) if row.starts_at > self._uow.now]
