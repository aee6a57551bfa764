"""Manual runs: start the next window of a schedule early, or end the one in force."""

from typing import Any, Literal

from sqlalchemy import select

from models.freezes import Freeze
from models.schedule_queries import next_planned, with_freezes
from models.schedules import Occurrence, Schedule
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.freezes.end import audit_end, end, lock_branches
from services.schedules.occurrence_start import start_freeze, uninstalled
from services.schedules.occurrence_views import occurrence_views
from services.schedules.views import get_schedule


def run_now(uow: UnitOfWork, schedule_id: str, action: Literal["apply", "lift"]) -> dict[str, Any]:
    """Apply the next window of a schedule now, or lift the one in force; return the occurrence.

    The schedule is locked against its sweeper and against edits, so that each window still starts once.
    Raise `schedule_not_found`, and the errors of `apply` and `lift`.
    """
    schedule = get_schedule(uow, schedule_id, lock=True)
    uow.refresh_now()
    occurrence = apply(uow, schedule) if action == "apply" else lift(uow, schedule)
    uow.session.flush()
    return occurrence_views(uow, [occurrence])[0]


def apply(uow: UnitOfWork, schedule: Schedule) -> Occurrence:
    """Start the next planned occurrence of a locked schedule; its end does not change.

    Raise `invalid_state` if one is active or the App is not installed, `occurrence_not_found` if none is planned, and
    `no_targets_in_scope`.
    """
    active = Occurrence.has_state("active", uow.now, Freeze.is_in_force(uow.now))
    running = with_freezes().where(Occurrence.schedule_id == schedule.id, active).limit(1)
    if active := uow.session.scalar(running):
        raise ServiceError("invalid_state", f"A window of this schedule is already in force: {active.freeze_id}.")
    if uow.session.scalar(select(uninstalled(uow.organization))):
        raise ServiceError("invalid_state", "The GitHub App is no longer installed, so no freeze can start.")
    occurrence = uow.session.scalar(next_planned(schedule.id, uow.now).with_for_update())
    if occurrence is None or not schedule.enabled:
        raise ServiceError("occurrence_not_found", "This schedule has no planned window to apply.")
    try:
        start_freeze(uow, schedule, occurrence)
    except ServiceError as error:
        if error.code != "no_targets_in_scope":
            raise
        message = "The scope of this schedule covers no watched branch of an enabled repository."
        raise ServiceError("no_targets_in_scope", message) from None
    return occurrence


def lift(uow: UnitOfWork, schedule: Schedule) -> Occurrence:
    """End all freezes of a locked schedule that are in force, including extended ones.

    Return the occurrence of the last started one. Raise `not_frozen` if there is none.
    """
    of = (Freeze.organization_id == uow.organization, Freeze.schedule_id == schedule.id, Freeze.is_in_force(uow.now))
    running = uow.session.scalars(select(Freeze).where(*of).order_by(Freeze.id).with_for_update()).all()
    if not running:
        raise ServiceError("not_frozen", "This schedule has no freeze in force to lift.")
    lock_branches(uow, running)
    for freeze in running:
        end(uow, freeze, "lifted", uow.now, uow.actor)
        window = {"scheduleId": schedule.id, "occurrenceId": freeze.occurrence_id}
        audit_end(uow, "freeze.lifted", freeze, reason=None, **window)
    latest = max(running, key=lambda freeze: (freeze.started_at, freeze.id))
    return uow.session.get_one(Occurrence, latest.occurrence_id)
