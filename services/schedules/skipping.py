"""Skipping the next window of a schedule: it does not begin, and the ones after it do."""

from typing import Any

from models.schedule_queries import next_planned
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.schedules import alerts
from services.schedules.occurrence_views import occurrence_view
from services.schedules.planning import leave_out_skipped
from services.schedules.views import get_schedule


def skip_next(uow: UnitOfWork, schedule_id: str) -> dict[str, Any]:
    """Skip the planned occurrence that begins first, and return it.

    Raises `schedule_not_found`, and `occurrence_not_found` when none is planned.
    """
    schedule = get_schedule(uow, schedule_id, lock=True)
    uow.refresh_now()
    occurrence = uow.session.scalar(next_planned(schedule.id, uow.now).with_for_update())
    if occurrence is None:
        raise ServiceError("occurrence_not_found", "No window of this schedule is planned.")
    occurrence.skip_reason, occurrence.skipped_by = "asked", uow.actor.as_json()
    alerts.audit_skipped(uow, schedule, occurrence)
    leave_out_skipped(uow, schedule)
    return occurrence_view(occurrence, None, uow.now)
