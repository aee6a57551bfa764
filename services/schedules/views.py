"""Schedules as in the API, with their next occurrence: one, or a page of them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Text, any_, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY

from models.freezes import Freeze
from models.queries import any_of
from models.schedule_queries import existing, next_planned, next_start
from models.schedules import Occurrence, Schedule
from rules.errors import ServiceError
from services.core.entity_tags import require_match
from services.core.pagination import Page, page_of
from services.core.unit_of_work import UnitOfWork
from services.freezes.scope_names import named_scopes
from services.schedules.occurrence_views import occurrence_views
from services.schedules.occurrences_by_schedule import OccurrenceRange, occurrences_by_schedule
from services.schedules.schedule_filters import ScheduleFilters, matching_schedules, one_of
from services.schedules.terms import is_over

NEVER = datetime(9999, 1, 1, tzinfo=UTC)
"""Sort key of schedules without a planned occurrence."""
_COPIED = (
    "id",
    "name",
    "timezone",
    "recurrence",
    "window",
    "reason",
    "public_text",
    "exceptions_allowed",
    "exception_rules_allowed",
    "enabled",
    "allow_overlap",
    "source",
    "created_by",
    "created_at",
    "updated_at",
)


def get_schedule(uow: UnitOfWork, schedule_id: str, *, lock: bool = False) -> Schedule:
    """Return a schedule by id. Raise `schedule_not_found`, also if it is deleted."""
    query = select(Schedule).where(Schedule.id == schedule_id, existing(uow.organization))
    schedule = uow.session.scalar(query.with_for_update(key_share=True) if lock else query)
    if schedule is None:
        raise not_found(schedule_id)
    return schedule


def get_matching(uow: UnitOfWork, schedule_id: str, if_match: str | None) -> Schedule:
    """Return a schedule, locked, that a request with this header `If-Match` may change.

    Raise `schedule_not_found`, `precondition_failed`.
    """
    schedule = get_schedule(uow, schedule_id, lock=True)
    uow.refresh_now()
    require_match(if_match, lambda: view(uow, schedule))
    return schedule


def not_found(schedule_id: str) -> ServiceError:
    """Return the error for an unknown schedule id."""
    return ServiceError("schedule_not_found", f"Schedule {schedule_id!r} not found in this organisation.")


def list_schedules(
    uow: UnitOfWork,
    filters: ScheduleFilters,
    cursor: str | None,
    limit: int,
    occurrences: OccurrenceRange | None = None,
) -> Page:
    """Return a page of schedules by next start; those without one come last. With a range, each has its occurrences.

    Raise `repository_not_found`, `invalid_cursor`, `invalid_parameter` if the range ends before it starts.
    """
    query = select(Schedule).where(existing(uow.organization), *one_of(Schedule.id, matching_schedules(uow, filters)))
    keys = (func.coalesce(next_start(uow.now), literal(NEVER)), Schedule.id)
    page = page_of(uow, "list_schedules", filters, query, keys, cursor=cursor, limit=limit, ascending=True)
    listed = views(uow, page.data)
    if occurrences is not None:
        found = occurrences_by_schedule(uow, [schedule.id for schedule in page.data], occurrences)
        listed = [{**schedule, "occurrences": found[schedule["id"]]} for schedule in listed]
    return Page(listed, page.next_cursor)


def show(uow: UnitOfWork, schedule_id: str) -> dict[str, Any]:
    """Return a schedule. Raise `schedule_not_found`."""
    return view(uow, get_schedule(uow, schedule_id))


def view(uow: UnitOfWork, schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as in the API, with its next occurrence."""
    return views(uow, [schedule])[0]


def views(uow: UnitOfWork, schedules: Sequence[Schedule]) -> list[dict[str, Any]]:
    """Return schedules as in the API; their next occurrences are read in one query."""
    ids = [schedule.id for schedule in schedules]
    coming, active = _next_occurrences(uow, ids), active_freezes(uow, ids)
    scopes = named_scopes(uow, [schedule.scope for schedule in schedules])
    return [
        {
            **{name: getattr(schedule, name) for name in _COPIED},
            "scope": scope,
            "next_occurrence": coming.get(schedule.id),
            "active_freeze": active.get(schedule.id),
            "over": schedule.id not in coming and is_over(schedule, uow.now),
        }
        for schedule, scope in zip(schedules, scopes, strict=True)
    ]


def active_freezes(uow: UnitOfWork, schedule_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the freeze in force that each schedule has started, by schedule id; the last one, if there are several."""
    query = select(Freeze.schedule_id, Freeze.id, Freeze.ends_at).where(
        Freeze.schedule_id == any_of(schedule_ids), Freeze.is_in_force(uow.now)
    )
    rows = uow.session.execute(query.order_by(Freeze.started_at, Freeze.id))
    return {str(schedule_id): {"id": freeze_id, "ends_at": ends_at} for schedule_id, freeze_id, ends_at in rows}


def _next_occurrences(uow: UnitOfWork, schedule_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the next planned occurrence of each schedule that has one, by schedule id."""
    first = next_planned(Schedule.id, uow.now).with_only_columns(Occurrence.id).correlate(Schedule).scalar_subquery()
    coming = select(first).where(Schedule.id == any_of(schedule_ids)).scalar_subquery()
    # As an array: of a subquery the database thinks that it meets more than it is worth looking up one by one.
    query = select(Occurrence).where(Occurrence.id == any_(func.array(coming, type_=ARRAY(Text))))
    rows = uow.session.scalars(query).all()
    return {shown["schedule_id"]: shown for shown in occurrence_views(uow, rows)}
