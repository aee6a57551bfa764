"""Skipping the next window of a schedule; later windows are not affected."""

from typing import Any

from models.schedule_queries import next_planned
from models.schedules import Occurrence
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.schedules import alerts
from services.schedules.occurrence_views import occurrence_view
from services.schedules.plans import exclude_skipped
from services.schedules.views import get_schedule


def skip_next(uow: UnitOfWork, schedule_id: str, occurrence_id: str | None = None) -> dict[str, Any]:
    """Skip the next planned occurrence and return it; return a named one that a person has skipped before as it is.

    Raise `schedule_not_found`, `occurrence_not_found` if none is planned or the schedule has not the named one, and
    `invalid_state` if the named one is not next.
    """
    schedule = get_schedule(uow, schedule_id, lock=True)
    uow.refresh_now()
    if occurrence_id is not None:
        named = uow.session.get(Occurrence, occurrence_id)
        if named is None or named.schedule_id != schedule.id:
            raise ServiceError("occurrence_not_found", f"This schedule has no window {occurrence_id!r}.")
        if named.skip_reason == "asked":
            return occurrence_view(named, None, uow.now)
    occurrence = uow.session.scalar(next_planned(schedule.id, uow.now).with_for_update())
    if occurrence_id is not None and (occurrence is None or occurrence.id != occurrence_id):
        raise ServiceError("invalid_state", f"The window {occurrence_id!r} is not the next planned one.")
    if occurrence is None:
        raise ServiceError("occurrence_not_found", "This schedule has no planned window.")
    occurrence.skip_reason, occurrence.skipped_by = "asked", uow.actor.as_json()
    alerts.audit_skipped(uow, schedule, occurrence)
    exclude_skipped(uow, schedule)
    return occurrence_view(occurrence, None, uow.now)
