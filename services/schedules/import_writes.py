"""What an import does to schedules: for real, or in a dry run in memory alone, without a lock and without a row."""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from models.schedules import Schedule
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.freezes.scopes import resolve
from services.schedules.changes import COMPARED, Former, NewSchedule, assign, change, insert_checked, new_schedule
from services.schedules.deletion import delete_locked
from services.schedules.overlaps import Overlap, Overlaps, clear_times, refusal_of, refused_overlaps
from services.schedules.plans import not_skipped, ranges, skipped_rows, upcoming_windows


class Writes(Protocol):
    """Creates, changes and deletes schedules. For real, the first two raise `schedule_overlap`."""

    refusal: ServiceError | None
    """In a dry run, why the import would refuse what was created or changed last."""

    def insert(self, wanted: NewSchedule, timezone: str) -> Schedule:
        """Create a schedule whose terms and quota have been checked."""

    def change(self, schedule: Schedule, changes: Mapping[str, Any]) -> None:
        """Change a schedule to checked values."""

    def delete(self, schedule: Schedule) -> None:
        """Delete a schedule."""

    @property
    def uncounted(self) -> int:
        """How many schedules are deleted whose rows still count."""


class StoredWrites:
    """Writes to the database; the caller has locked the organisation and the schedules.

    `apply_to_active`: freezes in force follow a change, and end with a deletion; the caller has locked them.
    """

    uncounted = 0
    refusal: ServiceError | None = None

    def __init__(self, uow: UnitOfWork, *, apply_to_active: bool) -> None:
        self._uow = uow
        self._apply_to_active = apply_to_active

    def insert(self, wanted: NewSchedule, timezone: str) -> Schedule:
        """Create and plan a schedule."""
        return insert_checked(self._uow, wanted, timezone)

    def change(self, schedule: Schedule, changes: Mapping[str, Any]) -> None:
        """Change a schedule, and plan it again."""
        change(self._uow, schedule, changes, apply_to_active=self._apply_to_active)

    def delete(self, schedule: Schedule) -> None:
        """Delete a schedule with what is planned."""
        delete_locked(self._uow, schedule, end_active=self._apply_to_active)


class RehearsedWrites:
    """Changes schedules that no session holds, and says what the import would refuse."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow
        self._touched: dict[str, Schedule] = {}
        """By id: what is not any more as it is stored."""
        self.uncounted = 0
        self.refusal: ServiceError | None = None

    def insert(self, wanted: NewSchedule, timezone: str) -> Schedule:
        """Return the schedule that the import would create."""
        schedule = new_schedule(self._uow, wanted, timezone)
        self.refusal = self._compare(schedule)
        return schedule

    def change(self, schedule: Schedule, changes: Mapping[str, Any]) -> None:
        """Change a copy of a schedule."""
        former = Former.of(schedule)
        changed = assign(schedule, changes)
        beside = () if "allow_overlap" in changed or not changed & COMPARED else former.beside(self._uow)
        self.refusal = self._compare(schedule, beside) if changed & COMPARED else None

    def delete(self, schedule: Schedule) -> None:
        """Count a schedule as deleted."""
        schedule.deleted_at = self._uow.now
        self._touched[schedule.id] = schedule
        self.uncounted += 1

    def _compare(self, schedule: Schedule, beside: Collection[str] = ()) -> ServiceError | None:
        """Return `schedule_overlap` unless the schedule may stand beside the others, stored and rehearsed."""
        self._touched[schedule.id] = schedule
        if not schedule.enabled or schedule.allow_overlap:
            return None
        planned = not_skipped(upcoming_windows(self._uow, schedule), skipped_rows(self._uow, schedule.id))
        schedule.windows = ranges(planned)
        branches = resolve(self._uow, schedule.scope, stored=True).branches
        stored = refused_overlaps(self._uow, schedule, {*self._touched, *beside}, branches)
        others = [other for other in self._touched.values() if not other.allow_overlap and other.id not in beside]
        met = [found for other in others if (found := self._meeting(schedule, other)) is not None]
        return refusal_of(stored) or (refusal_of(Overlaps(len(met), met)) if branches else None)

    def _meeting(self, schedule: Schedule, other: Schedule) -> Overlap | None:
        """Return the first overlap with another rehearsed schedule, which has the same scope."""
        if other is schedule or other.deleted_at is not None or not other.enabled:
            return None
        windows = ranges(not_skipped(upcoming_windows(self._uow, other), skipped_rows(self._uow, other.id)))
        mine = schedule.windows or []
        starts = [
            max(one.lower, two.lower, self._uow.now)
            for one in (clear_times(schedule, mine) if schedule.timezone == other.timezone else mine)
            for two in windows
            if one.lower and two.lower and one.upper and two.upper
            if max(one.lower, two.lower, self._uow.now) < min(one.upper, two.upper)
        ]
        return Overlap(other.id, other.name, min(starts), other.allow_overlap) if starts else None
