"""Filters by schedule, of lists of schedules and occurrences and of the calendar."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Text, cast, func, select

from models.queries import any_of, watched_branches
from models.repositories import WatchedBranch
from models.schedules import Schedule
from rules.time.schedule_overlaps import BranchIndex
from services.core.lookups import get_repository, require_schedule
from services.core.unit_of_work import UnitOfWork
from services.schedules.overlaps import covering_schedules


@dataclass(frozen=True, slots=True)
class ScheduleFilters:
    """Filters by schedule; None means any."""

    schedule_id: str | None = None
    repo: str | None = None
    """Schedules whose scope covers a watched branch of this repository, by id or `owner/name`."""
    branch: str | None = None
    """Schedules whose scope covers a watched branch with this name, of `repo` if that is given."""
    source: str | None = None
    name: str | None = None
    """Schedules whose name contains this text, case-insensitively."""


NO_FILTERS = ScheduleFilters()


def matching_schedules(uow: UnitOfWork, filters: ScheduleFilters) -> list[str] | None:
    """Return the ids of the organisation's schedules that match, deleted ones included; None without a filter.

    Raise `schedule_not_found`, `repository_not_found`.
    """
    if filters.schedule_id is not None:
        require_schedule(uow, filters.schedule_id)
    conditions = list(_conditions(filters))
    covers = filters.repo is not None or filters.branch is not None
    if not conditions and not covers:
        return None
    query = select(Schedule.id, cast(Schedule.scope, Text)).where(Schedule.organization_id == uow.organization)
    found = uow.session.execute(query.where(*conditions)).all()
    if not covers:
        return [schedule_id for schedule_id, _ in found]
    return covering_schedules(
        uow, BranchIndex(watched_branches(uow.session, uow.organization, *_of(uow, filters))), found
    )


def _conditions(filters: ScheduleFilters) -> Iterator[ColumnElement[bool]]:
    if filters.schedule_id is not None:
        yield Schedule.id == filters.schedule_id
    if filters.source is not None:
        yield Schedule.source == filters.source
    if filters.name is not None:
        yield func.strpos(func.lower(Schedule.name), func.lower(filters.name)) > 0


def _of(uow: UnitOfWork, filters: ScheduleFilters) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions for the watched branches that a scope must cover one of."""
    if filters.repo is not None:
        yield WatchedBranch.repository_id == get_repository(uow, filters.repo).id
    if filters.branch is not None:
        yield WatchedBranch.name == filters.branch


def one_of(column: Any, schedule_ids: Collection[str] | None) -> list[ColumnElement[bool]]:
    """Return the condition that a column has one of the ids; none without ids.

    One id is compared without a list: then the index of a schedule's occurrences gives their order as well.
    """
    if schedule_ids is None:
        return []
    return [column == next(iter(schedule_ids)) if len(schedule_ids) == 1 else column == any_of(schedule_ids)]
