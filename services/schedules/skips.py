"""Skipping the next window of a schedule; later windows are not affected."""

from typing import Any

from models.schedule_queries import next_planned
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.schedules import alerts
from services.schedules.occurrence_views import occurrence_view
from services.schedules.plans import exclude_skipped
from services.schedules.views import get_schedule


def skip_next(uow: UnitOfWork, schedule_id: str) -> dict[str, Any]:
    """Skip the next planned occurrence and return it.

    Raise `schedule_not_found`, and `occurrence_not_found` if none is planned.
    """
    schedule = get_schedule(uow, schedule_id, lock=True)
    uow.refresh_now()
    occurrence = uow.session.scalar(next_planned(schedule.id, uow.now).with_for_update())
    if occurrence is None:
        raise ServiceError("occurrence_not_found", "This schedule has no planned window.")
    occurrence.skip_reason, occurrence.skipped_by = "asked", uow.actor.as_json()
    alerts.audit_skipped(uow, schedule, occurrence)
    exclude_skipped(uow, schedule)
    return occurrence_view(occurrence, None, uow.now)
