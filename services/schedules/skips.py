"""Skipping windows of a schedule, and planning skipped ones again; other windows are not affected.

The schedule and the row of the window are locked, so that a window that is about to start is either skipped or started.
"""

from collections.abc import Collection
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import Range, array

from models.audit import AuditEntry
from models.freezes import Freeze
from models.schedule_queries import existing, next_planned
from models.schedules import Occurrence, Schedule
from rules.errors import ServiceError
from rules.time.instants import format_instant
from services.core.unit_of_work import UnitOfWork
from services.schedules import alerts
from services.schedules.check_texts import planned_freezes_of, refresh_texts
from services.schedules.later_occurrences import find_later
from services.schedules.occurrence_views import occurrence_view, state_of
from services.schedules.overlaps import ids_overlapping, require_no_overlap
from services.schedules.plans import exclude_skipped, plan_next
from services.schedules.views import get_schedule

_OF_OVERLAPS = ("scope", "timezone", "recurrence", "window", "allowOverlap")
"""Properties whose change can make a schedule overlap others, as the audit names them."""


def skip_next(uow: UnitOfWork, schedule_id: str, occurrence_id: str | None = None) -> dict[str, Any]:
    """Skip the next planned occurrence and return it; return a named one that a person has skipped before as it is.

    One that is skipped now says how many windows ahead of it people had skipped already (`skipped_before`).
    Raise `schedule_not_found`, `occurrence_not_found` if none is planned or the schedule has not the named one, and
    `invalid_state` if the named one is not next.
    """
    schedule = get_schedule(uow, schedule_id, lock=True)
    uow.refresh_now()
    if occurrence_id is not None:
        named = _get(uow, schedule, occurrence_id)
        if named.skip_reason == "asked":
            return occurrence_view(named, None, uow.now)
    occurrence = uow.session.scalar(next_planned(schedule.id, uow.now).with_for_update())
    if occurrence_id is not None and (occurrence is None or occurrence.id != occurrence_id):
        raise ServiceError("invalid_state", f"The window {occurrence_id!r} is not the next planned one.")
    if occurrence is None:
        raise ServiceError("occurrence_not_found", "This schedule has no planned window.")
    ahead = (Occurrence.schedule_id == schedule.id, Occurrence.skip_reason == "asked", Occurrence.starts_at > uow.now)
    query = select(func.count()).where(*ahead, Occurrence.starts_at < occurrence.starts_at)
    return {**_skip(uow, schedule, occurrence), "skipped_before": uow.session.scalar(query) or 0}


def skip(uow: UnitOfWork, schedule_id: str, occurrence_id: str) -> dict[str, Any]:
    """Skip a planned occurrence, stored or not, and return it; return one that a person has skipped before as it is.

    Raise `schedule_not_found`, `occurrence_not_found`, and `invalid_state` if it is not planned.
    """
    schedule = get_schedule(uow, schedule_id, lock=True)
    uow.refresh_now()
    occurrence = _get(uow, schedule, occurrence_id)
    if occurrence.skip_reason == "asked":
        return occurrence_view(occurrence, None, uow.now)
    if not occurrence.is_planned(uow.now):
        raise ServiceError("invalid_state", f"Only a planned window can be skipped. {_state(uow, occurrence)}")
    return _skip(uow, schedule, occurrence)


def _skip(uow: UnitOfWork, schedule: Schedule, occurrence: Occurrence) -> dict[str, Any]:
    before = planned_freezes_of(uow, schedule)
    occurrence.skip_reason, occurrence.skipped_by = "asked", uow.actor.as_json()
    uow.session.add(occurrence)
    alerts.audit_skipped(uow, schedule, occurrence)
    exclude_skipped(uow, schedule)
    plan_next(uow, schedule)
    refresh_texts(uow, before, planned_freezes_of(uow, schedule))
    return occurrence_view(occurrence, None, uow.now)


def unskip(uow: UnitOfWork, schedule_id: str, occurrence_id: str) -> dict[str, Any]:
    """Plan an occurrence again that a person has skipped, and return it; return a planned one as it is.

    Raise `schedule_not_found`, `occurrence_not_found`, `invalid_state` if it has begun, was not skipped by a person or
    its schedule is disabled, and `schedule_overlap`.
    """
    schedule = get_schedule(uow, schedule_id, lock=True)
    uow.refresh_now()
    occurrence = _get(uow, schedule, occurrence_id)
    if occurrence.is_planned(uow.now):
        return occurrence_view(occurrence, None, uow.now)
    if occurrence.skip_reason != "asked" or occurrence.starts_at <= uow.now:
        allowed = "Only a window that a person has skipped, and that has not begun, can be planned again."
        raise ServiceError("invalid_state", f"{allowed} {_state(uow, occurrence)}")
    if not schedule.enabled:
        raise ServiceError("invalid_state", "The schedule is disabled, so it has no planned windows. Enable it first.")
    if not schedule.allow_overlap:
        _require_no_overlap(uow, schedule, occurrence)
    before = planned_freezes_of(uow, schedule)
    alerts.audit_unskipped(uow, schedule, occurrence)
    occurrence.skip_reason, occurrence.skipped_by, occurrence.verified_at = None, None, None
    if schedule.planned_until is not None and occurrence.starts_at > schedule.planned_until:
        uow.session.delete(occurrence)
        plan_next(uow, schedule)
    exclude_skipped(uow, schedule)
    refresh_texts(uow, before, planned_freezes_of(uow, schedule))
    return occurrence_view(occurrence, None, uow.now)


def _require_no_overlap(uow: UnitOfWork, schedule: Schedule, occurrence: Occurrence) -> None:
    """Raise `schedule_overlap` if this window would overlap a schedule beside which it was not planned before."""
    copied = {name: getattr(schedule, name) for name in ("id", "scope", "timezone", "window")}
    alone = Schedule(organization_id=schedule.organization_id, **copied)
    alone.windows = [Range(occurrence.starts_at, occurrence.ends_at)]
    require_no_overlap(uow, alone, {*ids_overlapping(uow, schedule), *_planned_beside(uow, schedule, occurrence)})


def _planned_beside(uow: UnitOfWork, schedule: Schedule, occurrence: Occurrence) -> Collection[str]:
    """Return the ids of the schedules beside which a window was planned when it was skipped, by the audit.

    They are those that are older than the skip and, as the schedule itself, have had the same windows and branches
    since. One that shares a branch only now is among them.
    """
    of_schedules = (AuditEntry.organization_id == uow.organization, AuditEntry.target["type"].astext == "schedule")
    skips = select(func.max(AuditEntry.at)).where(
        *of_schedules,
        AuditEntry.target_id == schedule.id,
        AuditEntry.action == "occurrence.skipped",
        AuditEntry.details["occurrenceId"].astext == occurrence.id,
    )
    skipped_at = uow.session.scalar(skips)
    if skipped_at is None:
        return ()
    changes = select(AuditEntry.target_id).where(
        *of_schedules,
        AuditEntry.action == "schedule.updated",
        AuditEntry.at > skipped_at,
        AuditEntry.details["after"].has_any(array(_OF_OVERLAPS)),
    )
    changed = set(uow.session.scalars(changes))
    earlier = select(Schedule.id).where(existing(uow.organization), Schedule.created_at <= skipped_at)
    return () if schedule.id in changed else set(uow.session.scalars(earlier)) - changed


def _get(uow: UnitOfWork, schedule: Schedule, occurrence_id: str) -> Occurrence:
    """Return an occurrence of a locked schedule: its locked row, or one that is not stored yet.

    Raise `occurrence_not_found`.
    """
    query = select(Occurrence).where(Occurrence.schedule_id == schedule.id, Occurrence.id == occurrence_id)
    found = uow.session.scalar(query.with_for_update()) or find_later(uow, schedule, occurrence_id)
    if found is None:
        raise ServiceError("occurrence_not_found", f"This schedule has no window {occurrence_id!r}.")
    return found


def _state(uow: UnitOfWork, occurrence: Occurrence) -> str:
    """Return a sentence on why the state of an occurrence does not allow the call."""
    freeze = uow.session.get(Freeze, occurrence.freeze_id) if occurrence.freeze_id is not None else None
    if state_of(occurrence, freeze, uow.now) == "active":
        return f"This one is in force; to end it, lift its freeze {occurrence.freeze_id}."
    if occurrence.skip_reason == "asked":
        return f"This one began at {format_instant(occurrence.starts_at)}."
    if occurrence.skip_reason is not None:
        return f"This one is skipped because of {occurrence.skip_reason}."
    return "This one passed without a freeze." if occurrence.is_missed(uow.now) else "This one is over."
