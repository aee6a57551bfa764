"""Deletion of schedules: their planned occurrences are removed, past ones can still be read."""

from collections.abc import Collection, Sequence

from sqlalchemy import delete, or_

from models.schedules import Occurrence, Schedule
from services.alerts.alerts import resolve_alerts
from services.alerts.past_windows import keys_of_past_windows
from services.core.unit_of_work import UnitOfWork
from services.freezes.end import lift, lock_covered_branches
from services.freezes.windows import begin_due
from services.schedules import alerts
from services.schedules.cancelled_windows import record_cancelled
from services.schedules.changes import audit_snapshot
from services.schedules.check_texts import (
    PlannedFreezes,
    branches_with_outdated_text,
    mark_texts_outdated,
    planned_freezes_of,
)
from services.schedules.manual_runs import lock_running
from services.schedules.views import get_matching

REASON = "Its schedule was deleted"


def delete_schedule(uow: UnitOfWork, schedule_id: str, *, end_active: bool, if_match: str | None = None) -> None:
    """Delete a schedule with its planned occurrences; its freezes continue, unless `end_active`.

    A window that is due freezes already: it begins first. Raise `schedule_not_found`, `precondition_failed`.
    """
    schedule = get_matching(uow, schedule_id, if_match)
    before = planned_freezes_of(uow, schedule)
    _remove(uow, schedule)
    outdated = branches_with_outdated_text(uow, before, PlannedFreezes(schedule.scope))
    ended = _end_freezes(uow, schedule, outdated) if end_active else []
    mark_texts_outdated(uow, outdated)
    _audit(uow, schedule, ended)


def delete_locked(uow: UnitOfWork, schedule: Schedule, *, end_active: bool = False) -> None:
    """Delete a locked schedule with its planned occurrences, and keep the texts of checks.

    Its freezes continue, unless `end_active`.
    """
    _remove(uow, schedule)
    _audit(uow, schedule, _end_freezes(uow, schedule, ()) if end_active else [])


def _remove(uow: UnitOfWork, schedule: Schedule) -> None:
    begin_due(uow, schedule)
    planned = (
        delete(Occurrence)
        .where(Occurrence.schedule_id == schedule.id, Occurrence.started_at.is_(None))
        .where(or_(Occurrence.is_planned(uow.now), Occurrence.starts_at > uow.now))
    )
    columns = (Occurrence.id, Occurrence.starts_at, Occurrence.ends_at, Occurrence.skip_reason)
    record_cancelled(uow, schedule, uow.session.execute(planned.returning(*columns)).all())
    schedule.deleted_at, schedule.windows = uow.now, None
    resolve_alerts(uow, keys_of_past_windows(schedule.id))


def _audit(uow: UnitOfWork, schedule: Schedule, ended: Sequence[str]) -> None:
    before = audit_snapshot(uow, schedule)
    uow.audit("schedule.deleted", alerts.subject(schedule), before=before, after=None, endedFreezes=ended)


def _end_freezes(uow: UnitOfWork, schedule: Schedule, others: Collection[str]) -> list[str]:
    """Lift the schedule's freezes that are in force, and return their ids; lock other branches together with theirs."""
    running = lock_running(uow, schedule)
    lock_covered_branches(uow, running, others)
    return [lift(uow, freeze.id, REASON).id for freeze in running]
