"""Lists of occurrences in a range of time, by start: stored ones, and later ones that are computed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Row, Select, func, select, text, tuple_

from models.freezes import Freeze
from models.schedule_queries import with_freezes
from models.schedules import LONG, Occurrence, OccurrenceState, Schedule
from services.core.pagination import Page, read_cursor, sign_cursor
from services.core.ranges import require_range
from services.core.rotated_secrets import CursorSecret
from services.core.unit_of_work import UnitOfWork
from services.schedules.later_occurrences import BEGINNING, MAX_AHEAD, LaterWindow, LaterWindows, Position
from services.schedules.occurrence_views import occurrence_view
from services.schedules.plans import HORIZON
from services.schedules.schedule_filters import NO_FILTERS, ScheduleFilters, matching_schedules, one_of

NOT_LONG = timedelta(days=8)
"""Longest duration of occurrences outside of the index of long ones."""
_TO_COME: tuple[OccurrenceState | None, ...] = ("planned", "active")


@dataclass(frozen=True, slots=True)
class OccurrenceFilters:
    """Filters of a list of occurrences; None means any."""

    since: datetime | None = None
    """Occurrences that end later."""
    until: datetime | None = None
    """Occurrences that start earlier."""
    state: OccurrenceState | None = None
    schedule: ScheduleFilters = NO_FILTERS


def list_occurrences(uow: UnitOfWork, filters: OccurrenceFilters, cursor: str | None, limit: int) -> Page:
    """Return a page of occurrences, earliest start first, including those of deleted schedules.

    Those that are not stored yet are listed until the end of the range, or without one for 90 days.
    Raise `invalid_parameter` if the range ends before it starts, `schedule_not_found`, `repository_not_found`,
    `invalid_cursor`.
    """
    require_range(filters.since, filters.until, ("from", "to"))
    secrets, bound = uow.ports[CursorSecret].accepted, ("list_occurrences", uow.organization, filters)
    position: Position | None = read_cursor(secrets, bound, cursor) if cursor is not None else None
    schedule_ids = matching_schedules(uow, filters.schedule)
    later = _later_windows(uow, filters, schedule_ids)
    stored = _stored(uow, filters, schedule_ids, position, limit + 1)
    end = stored[limit][0].starts_at if len(stored) > limit else None
    found: dict[str, tuple[Occurrence, Freeze | None]]
    found = {one.id: (one.occurrence(), None) for one in _next_later(uow, later, filters, position, limit + 1, end)}
    found |= {row.id: (row, freeze) for row, freeze in stored}
    listed = sorted(found.values(), key=lambda each: _position_of(each[0]))
    shown = [occurrence_view(row, freeze, uow.now) for row, freeze in listed[:limit]]
    more = len(listed) > limit
    return Page(shown, sign_cursor(secrets, bound, _position_of(listed[limit - 1][0])) if more else None)


def _position_of(row: Occurrence) -> Position:
    return row.starts_at, row.id


def _stored(
    uow: UnitOfWork,
    filters: OccurrenceFilters,
    schedule_ids: Sequence[str] | None,
    position: Position | None,
    count: int,
) -> Sequence[Row[Occurrence, Freeze | None]]:
    """Return the next rows of the list with their freezes."""
    query = with_freezes().where(*touching(uow, _since(uow, filters), filters.until))
    query = query.where(*one_of(Occurrence.schedule_id, schedule_ids))
    if filters.state is not None:
        query = query.where(Occurrence.has_state(filters.state, uow.now, Freeze.is_in_force(uow.now)))
    if position is not None:
        query = query.where(tuple_(Occurrence.starts_at, Occurrence.id) > position)
    return uow.session.execute(query.order_by(Occurrence.starts_at, Occurrence.id).limit(count)).all()


def _later_windows(
    uow: UnitOfWork, filters: OccurrenceFilters, schedule_ids: Sequence[str] | None
) -> LaterWindows | None:
    """Return the windows of the list that are not stored; None if all of them are.

    Without an end of the range that is those that start in the 90 days after its start.
    """
    since = filters.since or uow.now
    until = filters.until or min(since, uow.now + MAX_AHEAD) + HORIZON
    if filters.state in {"active", "past"} or (filters.until is None and since <= uow.now):
        return None
    return LaterWindows(uow, until, *one_of(Schedule.id, schedule_ids))


def _next_later(
    uow: UnitOfWork,
    later: LaterWindows | None,
    filters: OccurrenceFilters,
    after: Position | None,
    count: int,
    end: datetime | None,
) -> Sequence[LaterWindow]:
    """Return the next windows of the list that are not stored, and start at a time at the latest."""
    if later is None:
        return ()
    since = max(filters.since or uow.now, uow.now)
    if filters.state != "skipped":
        return later.first(count, since, after, end, only_real=filters.state == "planned")
    return [one for one in later.unreal(since) if after is None or one.position > after][:count]


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
        earliest = min(max(since, BEGINNING) - NOT_LONG, first or since)
        conditions += [Occurrence.starts_at >= earliest, Occurrence.ends_at > since]
    return conditions


def first_long(conditions: Sequence[ColumnElement[bool]], since: datetime) -> Select[datetime | None]:
    """Return the query for the earliest start of a long occurrence that ends after a time.

    The offset keeps the planner from scanning all occurrences in the expectation of finding a long one soon.
    """
    long = select(Occurrence.starts_at).where(*conditions, text(LONG), Occurrence.ends_at > since).offset(0)
    return select(func.min(long.subquery().c.starts_at))
