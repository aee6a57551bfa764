"""Manual runs: start the next window of a schedule early, end the one in force, or have it follow a change."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, func, select

from models.due_windows import uninstalled
from models.freezes import Freeze
from models.schedule_queries import next_planned, with_freezes
from models.schedules import Occurrence, Schedule
from rules.errors import ServiceError, field_error
from rules.ids import new_id
from rules.time.instants import format_instant
from services.core.unit_of_work import UnitOfWork
from services.freezes.end import audit_end, end, lock_covered_branches
from services.freezes.scopes import resolve
from services.freezes.start import require_future
from services.freezes.windows import begin_due, begin_windows, due_in_organization, lock_windows, start_window
from services.schedules.occurrence_views import occurrence_views
from services.schedules.terms import windows_of
from services.schedules.views import get_schedule

MAX_EARLY_START = timedelta(hours=24)
"""A window that begins later than this needs an end of its own: its planned end would freeze for much longer."""


def run_now(
    uow: UnitOfWork, schedule_id: str, action: Literal["apply", "lift"], ends_at: datetime | None = None
) -> dict[str, Any]:
    """Apply the next window of a schedule now, or lift the one in force; return the occurrence.

    The schedule is locked against the sweep and against edits, so that each window still starts once.
    Raise `schedule_not_found`, `invalid_parameter` for an end with `lift`, and the errors of `apply` and `lift`.
    """
    schedule = get_schedule(uow, schedule_id, lock=True)
    uow.refresh_now()
    if action == "lift" and ends_at is not None:
        raise field_error("/endsAt", "is only for the action apply")
    occurrence = apply(uow, schedule, ends_at) if action == "apply" else lift(uow, schedule)
    uow.session.flush()
    return occurrence_views(uow, [occurrence])[0]


def apply(uow: UnitOfWork, schedule: Schedule, ends_at: datetime | None) -> Occurrence:
    """Start the next planned occurrence of a locked schedule; it ends at `ends_at` instead of its planned end.

    An end before the planned start makes an occurrence of its own: the planned one takes place as well.
    Raise `invalid_state` if one is active, the App is not installed, or the next one begins so late that it needs
    `ends_at`, `invalid_parameter` for an end that is not in the future, `occurrence_not_found` if none is planned, and
    `no_targets_in_scope`.
    """
    require_future(uow, ends_at)
    is_active = Occurrence.has_state("active", uow.now, Freeze.is_in_force(uow.now))
    active = uow.session.scalar(with_freezes().where(Occurrence.schedule_id == schedule.id, is_active).limit(1))
    if active is not None:
        raise ServiceError("invalid_state", f"A window of this schedule is already in force: {active.freeze_id}.")
    if uow.session.scalar(select(uninstalled(uow.organization))):
        raise ServiceError("invalid_state", "The GitHub App is no longer installed, so no freeze can start.")
    occurrence = uow.session.scalar(next_planned(schedule.id, uow.now).with_for_update())
    if occurrence is None or not schedule.enabled:
        raise ServiceError("occurrence_not_found", "This schedule has no planned window to apply.")
    if ends_at is None and occurrence.starts_at - uow.now > MAX_EARLY_START:
        message = (
            f"The next window begins at {format_instant(occurrence.starts_at)}, more than 24 hours from now. "
            "Send endsAt, the time at which it is to end."
        )
        raise ServiceError("invalid_state", message)
    if ends_at is not None and ends_at <= occurrence.starts_at:
        occurrence = _add_occurrence(uow, schedule, ends_at)
    elif ends_at is not None:
        occurrence.ends_at = ends_at
    try:
        start_window(uow, schedule, occurrence)
    except ServiceError as error:
        if error.code != "no_targets_in_scope":
            raise
        message = "The scope of this schedule covers no watched branch of an enabled repository."
        raise ServiceError("no_targets_in_scope", message) from None
    return occurrence


def _add_occurrence(uow: UnitOfWork, schedule: Schedule, ends_at: datetime) -> Occurrence:
    """Add an occurrence from now until an end."""
    occurrence = Occurrence(
        id=new_id("occ"),
        organization_id=uow.organization,
        schedule_id=schedule.id,
        starts_at=uow.now,
        ends_at=ends_at,
    )
    uow.session.add(occurrence)
    uow.session.flush()
    return occurrence


def lift(uow: UnitOfWork, schedule: Schedule) -> Occurrence:
    """End all freezes of a locked schedule that are in force, including extended ones; due windows begin first.

    Return the occurrence of the last started one. Raise `not_frozen` if there is none.
    """
    due = lock_windows(uow, due_in_organization(uow, schedule.id))
    running = [*lock_running(uow, schedule), *begin_windows(uow, due)]
    if not running:
        raise ServiceError("not_frozen", "This schedule has no freeze in force to lift.")
    lock_covered_branches(uow, running)
    _end(uow, schedule, running)
    latest = max(running, key=lambda freeze: (freeze.started_at, freeze.id))
    return uow.session.get_one(Occurrence, latest.occurrence_id)


def restart(uow: UnitOfWork, schedule: Schedule, *, same_windows: bool) -> None:
    """Replace the freezes in force of a locked schedule, which was changed, by one with its new terms.

    With the `same_windows` as before it ends as the last of them, also if that was begun by hand or extended.
    Otherwise it is that of the window that is open now; if none is, or the schedule is disabled, they only
    end. Without one in force nothing happens.
    """
    in_force = Freeze.schedule_id == schedule.id, Freeze.is_in_force(uow.now)
    former = uow.session.scalars(select(Freeze.id).where(*in_force)).all()
    if not former:
        return
    begun = begin_due(uow, schedule) if schedule.enabled else []
    running = lock_running(uow, schedule, Freeze.id.in_(former))
    if same_windows and running:
        _begin_again(uow, schedule, running)
    elif schedule.enabled and not begun:
        ends = [one.end for one in windows_of(schedule, uow.now, uow.now) if one.start <= uow.now < one.end]
        if ends:
            start_window(uow, schedule, _add_occurrence(uow, schedule, max(ends)))
    lock_covered_branches(uow, running)
    _end(uow, schedule, running)


def lock_freezes_in_force(uow: UnitOfWork, schedules: Iterable[Schedule]) -> None:
    """Lock the freezes in force of locked schedules, then all branches that these cover or will cover."""
    of = {schedule.id: schedule.scope for schedule in schedules}
    query = select(Freeze).where(Freeze.schedule_id.in_(of), Freeze.is_in_force(uow.now))
    running = uow.session.scalars(query.order_by(Freeze.id).with_for_update()).all()
    scopes = [of[freeze.schedule_id] for freeze in running if freeze.schedule_id is not None]
    lock_covered_branches(uow, running, {one for scope in scopes for one in resolve(uow, scope, stored=True).ids})


def _begin_again(uow: UnitOfWork, schedule: Schedule, running: Sequence[Freeze]) -> None:
    """Start a freeze of a schedule that ends as the last of these; its window ends with the last of theirs."""
    last = max(running, key=lambda freeze: (freeze.ends_at is None, freeze.ends_at or uow.now))
    of_windows = Occurrence.id.in_([freeze.occurrence_id for freeze in running])
    window_end = uow.session.scalar(select(func.max(Occurrence.ends_at)).where(of_windows))
    occurrence = _add_occurrence(uow, schedule, max(window_end or uow.now, uow.now))
    start_window(uow, schedule, occurrence, in_place_of=last)


def lock_running(uow: UnitOfWork, schedule: Schedule, *conditions: ColumnElement[bool]) -> Sequence[Freeze]:
    """Return the freezes in force of a schedule, locked in the order of their ids."""
    of = (Freeze.organization_id == uow.organization, Freeze.schedule_id == schedule.id, Freeze.is_in_force(uow.now))
    return uow.session.scalars(select(Freeze).where(*of, *conditions).order_by(Freeze.id).with_for_update()).all()


def _end(uow: UnitOfWork, schedule: Schedule, running: Iterable[Freeze]) -> None:
    for freeze in running:
        end(uow, freeze, "lifted", uow.now, uow.actor)
        window = {"scheduleId": schedule.id, "occurrenceId": freeze.occurrence_id}
        audit_end(uow, "freeze.lifted", freeze, reason=None, **window)
