"""Deleting schedules: nothing of one is planned any more, and what it did can still be read."""

from sqlalchemy import delete, or_, select

from models.freezes import Freeze
from models.schedules import Occurrence, Schedule
from services.alerts.alerts import resolve_alerts
from services.core.unit_of_work import UnitOfWork
from services.freezes.end import lift, lock_branches
from services.schedules import alerts
from services.schedules.saving import told
from services.schedules.views import get_schedule

REASON = "Its schedule was deleted"


def delete_schedule(uow: UnitOfWork, schedule_id: str, *, end_active: bool) -> None:
    """Delete a schedule with what it has planned; its freezes go on, unless they are asked to end.

    Raises `schedule_not_found`.
    """
    schedule = get_schedule(uow, schedule_id, lock=True)
    uow.refresh_now()
    uow.session.execute(
        delete(Occurrence)
        .where(Occurrence.schedule_id == schedule.id, Occurrence.begun_at.is_(None))
        .where(or_(Occurrence.is_planned(uow.now), Occurrence.starts_at > uow.now))
    )
    schedule.deleted_at, schedule.windows = uow.now, None
    resolve_alerts(uow, alerts.of_windows_past(schedule))
    ended = _end_freezes(uow, schedule) if end_active else []
    uow.audit("schedule.deleted", alerts.subject(schedule), before=told(schedule), after=None, endedFreezes=ended)


def _end_freezes(uow: UnitOfWork, schedule: Schedule) -> list[str]:
    """Lift what the schedule has in force, and return the ids."""
    query = select(Freeze).where(Freeze.schedule_id == schedule.id, Freeze.is_in_force(uow.now))
    running = uow.session.scalars(query.order_by(Freeze.id).with_for_update()).all()
    lock_branches(uow, running)
    return [lift(uow, freeze.id, REASON).id for freeze in running]
