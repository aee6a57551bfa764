"""Lists of occurrences in a range of time, by start."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, Select, func, select, text

from models.freezes import Freeze
from models.schedule_queries import with_freezes
from models.schedules import LONG, Occurrence, OccurrenceState
from services.core.lookups import require_schedule
from services.core.pagination import Page, page_of
from services.core.ranges import require_range
from services.core.unit_of_work import UnitOfWork
from services.schedules.occurrence_views import occurrence_view

NOT_LONG = timedelta(days=8)
"""Longest duration of occurrences outside of the index of long ones."""
_BEFORE_ALL = datetime(2000, 1, 1, tzinfo=UTC)
_TO_COME: tuple[OccurrenceState | None, ...] = ("planned", "active")


@dataclass(frozen=True, slots=True)
class OccurrenceFilters:
    """Filters of a list of occurrences; None means any."""

    since: datetime | None = None
    """Occurrences that end later."""
    until: datetime | None = None
    """Occurrences that start earlier."""
    schedule_id: str | None = None
    state: OccurrenceState | None = None


def list_occurrences(uow: UnitOfWork, filters: OccurrenceFilters, cursor: str | None, limit: int) -> Page:
    """Return a page of occurrences, earliest start first, including those of deleted schedules.

    Raise `invalid_parameter` if the range ends before it starts, `schedule_not_found`, `invalid_cursor`.
    """
    require_range(filters.since, filters.until, ("from", "to"))
    query = with_freezes().where(*touching(uow, _since(uow, filters), filters.until))
    if filters.schedule_id is not None:
        query = query.where(Occurrence.schedule_id == require_schedule(uow, filters.schedule_id))
    if filters.state is not None:
        query = query.where(Occurrence.has_state(filters.state, uow.now, Freeze.is_in_force(uow.now)))
    keys = (Occurrence.starts_at, Occurrence.id)
    page = page_of(uow, "list_occurrences", filters, query, keys, cursor=cursor, limit=limit, ascending=True)
    return Page([occurrence_view(row, freeze, uow.now) for row, freeze in page.data], page.next_cursor)


def _since(uow: UnitOfWork, filters: OccurrenceFilters) -> datetime | None:
    """Return the time after which listed occurrences end; planned and active ones have not ended."""
    if filters.state in _TO_COME:
        return max(filters.since or uow.now, uow.now)
    return filters.since


def touching(uow: UnitOfWork, since: datetime | None, until: datetime | None) -> list[ColumnElement[bool]]:
    """Return the conditions for the organisation's occurrences that end after one time and start before another.

    They are found by start. The few long ones determine how far before the range it may be, so that a long history
    costs nothing.
    """
    conditions: list[ColumnElement[bool]] = [Occurrence.organization_id == uow.organization]
    if until is not None:
        conditions.append(Occurrence.starts_at < until)
    if since is not None:
        first = uow.session.scalar(first_long(conditions, since))
        earliest = min(max(since, _BEFORE_ALL) - NOT_LONG, first or since)
        conditions += [Occurrence.starts_at >= earliest, Occurrence.ends_at > since]
    return conditions


def first_long(conditions: Sequence[ColumnElement[bool]], since: datetime) -> Select[datetime | None]:
    """Return the query for the earliest start of a long occurrence that ends after a time.

    The offset keeps the planner from scanning all occurrences in the expectation of finding a long one soon.
    """
    long = select(Occurrence.starts_at).where(*conditions, text(LONG), Occurrence.ends_at > since).offset(0)
    return select(func.min(long.subquery().c.starts_at))
