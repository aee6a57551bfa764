"""Deleting schedules: nothing of one is planned any more, and what it did can still be read."""

from sqlalchemy import delete, or_, select

from models.freezes import Freeze
from models.queries import in_force
from models.schedule_queries import planned
from models.schedules import Occurrence, Schedule
from services.alerts.alerts import clear_items
from services.core.unit_of_work import Unit
from services.freezes.end import lift, lock_branches
from services.schedules import alerts
from services.schedules.saving import told
from services.schedules.views import get_schedule

REASON = "Its schedule was deleted"


def delete_schedule(unit: Unit, schedule_id: str, *, end_active: bool) -> None:
    """Delete a schedule with what it has planned; its freezes go on, unless they are asked to end.

    Raises `schedule_not_found`.
    """
    schedule = get_schedule(unit, schedule_id, lock=True)
    unit.catch_up()
    unit.session.execute(
        delete(Occurrence)
        .where(Occurrence.schedule_id == schedule.id, Occurrence.begun_at.is_(None))
        .where(or_(planned(unit.now), Occurrence.starts_at > unit.now))
    )
    schedule.deleted_at, schedule.windows = unit.now, None
    clear_items(unit, alerts.of_windows_past(schedule))
    ended = _end_freezes(unit, schedule) if end_active else []
    unit.audit("schedule.deleted", alerts.subject(schedule), before=told(schedule), after=None, endedFreezes=ended)


def _end_freezes(unit: Unit, schedule: Schedule) -> list[str]:
    """Lift what the schedule has in force, and return the ids."""
    query = select(Freeze).where(Freeze.schedule_id == schedule.id, in_force(unit.now))
    running = unit.session.scalars(query.order_by(Freeze.id).with_for_update()).all()
    lock_branches(unit, running)
    return [lift(unit, freeze.id, REASON).id for freeze in running]
