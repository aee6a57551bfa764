"""How many freezes and windows last on each day: counted by the database, since a year may have thousands.

The freezes themselves can be listed besides, without what costs most about them: the counts of their targets.
"""

from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from itertools import accumulate
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, Select, exists, func, literal, select, union_all
from sqlalchemy.dialects.postgresql import ARRAY, TIMESTAMP

from models.freezes import Freeze, FreezeTarget
from models.queries import any_of
from models.repositories import WatchedBranch
from models.schedules import Occurrence, Schedule
from rules.errors import field_error
from rules.time.wall_clock import first_instant
from rules.time.zones import check_zone
from services.core.lookups import get_repository
from services.core.unit_of_work import UnitOfWork
from services.freezes.scope_names import named_scopes
from services.freezes.search import MAX_RANGE, has_words, overlapping
from services.freezes.views import without_targets
from services.schedules.later_occurrences import LaterWindows
from services.schedules.occurrences import touching
from services.schedules.schedule_filters import ScheduleFilters, matching_schedules, one_of

MAX_LISTED = 300
"""Freezes that are listed; all are counted."""
_MOMENT = timedelta(microseconds=1)

Conditions = Sequence[ColumnElement[bool]]
Span = tuple[int, int]
"""The numbers of the first and the last day on which something lasts, of the days asked for; the first is 1."""


def busy_days(
    uow: UnitOfWork, first: str, last: str, timezone: str, filters: ScheduleFilters, *, list_freezes: bool
) -> dict[str, Any]:
    """Return each day of a zone, from the first to the last, with how many freezes and windows last on it.

    Repository and name of the filters are those of freezes as well. With `list_freezes`, also the first `MAX_LISTED` of
    those freezes that none of the windows has.
    Raise `invalid_timezone`, `repository_not_found`, and `invalid_parameter` for a day or a range that there is not.
    """
    check_zone(timezone, "timezone")
    days = _days(_day(first, "firstDay"), _day(last, "lastDay"))
    zone = ZoneInfo(timezone)
    boundaries = [first_instant(datetime.combine(day, time()), zone) for day in days]
    schedule_ids = matching_schedules(uow, filters)
    in_range = [*touching(uow, boundaries[0], boundaries[-1]), *one_of(Occurrence.schedule_id, schedule_ids)]
    alone = _freezes_alone(uow, boundaries, in_range, filters)
    spans = _stored(uow, boundaries, in_range, alone) + _later(uow, boundaries, schedule_ids)
    changes: Counter[int] = Counter()
    for (begin, end), number in spans.items():
        changes.update({begin: number, end + 1: -number})
    counts = accumulate(changes[number] for number in range(1, len(days)))
    return {
        "timezone": timezone,
        "count": spans.total(),
        "days": [{"date": day, "count": count} for day, count in zip(days[:-1], counts, strict=True)],
        "freezes": _listed(uow, alone) if list_freezes else [],
    }


def _day(text: str, name: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise field_error(name, "must be a day of the calendar") from None


def _days(first: date, last: date) -> list[date]:
    """Return the days, and the one after them."""
    number = (last - first).days + 1
    if not 1 <= number <= MAX_RANGE.days:
        raise field_error("lastDay", f"must make a range of 1 to {MAX_RANGE.days} days")
    return [first + timedelta(days=each) for each in range(number + 1)]


def _freezes_alone(
    uow: UnitOfWork, boundaries: Sequence[datetime], in_range: Conditions, filters: ScheduleFilters
) -> Conditions:
    """Return the conditions of the freezes that last on one of the days, and that no window in range has."""
    of_window = exists().where(Occurrence.id == Freeze.occurrence_id, *in_range)
    alone = [Freeze.id == any_of(overlapping(uow, boundaries[0], boundaries[-1])), ~of_window]
    if filters.repo is not None:
        alone.append(Freeze.id.in_(_freezes_of(get_repository(uow, filters.repo).id)))
    if filters.name is not None:
        alone.append(has_words(Freeze, filters.name))
    return alone


def _stored(uow: UnitOfWork, boundaries: Sequence[datetime], in_range: Conditions, alone: Conditions) -> Counter[Span]:
    """Return how many stored windows and freezes last over the same days, by one statement."""
    windows = _spans(boundaries, Occurrence.starts_at, Occurrence.ends_at)
    windows = windows.where(*in_range, Occurrence.skip_reason.is_(None))
    ends_at = func.coalesce(Freeze.ended_at, Freeze.ends_at, literal(boundaries[-1], TIMESTAMP(timezone=True)))
    freezes = _spans(boundaries, Freeze.started_at, ends_at).where(*alone)
    each = union_all(windows, freezes).subquery().c
    rows = uow.session.execute(select(each.first, each.last, func.count()).group_by(each.first, each.last))
    return Counter({(first, last): number for first, last, number in rows})


def _listed(uow: UnitOfWork, alone: Conditions) -> list[dict[str, Any]]:
    """Return freezes as the contract's `BusyFreeze`, the first to start first."""
    query = select(Freeze).where(*alone).order_by(Freeze.started_at, Freeze.id).limit(MAX_LISTED)
    freezes = uow.session.scalars(query).all()
    scopes = named_scopes(uow, [freeze.scope for freeze in freezes])
    return [{**without_targets(each, uow.now), "scope": scope} for each, scope in zip(freezes, scopes, strict=True)]


def _freezes_of(repository_id: str) -> Select[str]:
    branches = select(WatchedBranch.id).where(WatchedBranch.repository_id == repository_id)
    return select(FreezeTarget.freeze_id).where(FreezeTarget.branch_id.in_(branches))


def _spans(boundaries: Sequence[datetime], starts_at: Any, ends_at: Any) -> Select[int, int]:
    """Return the query for the numbers of the first and the last day on which each of some rows lasts."""
    days = literal(list(boundaries), ARRAY(TIMESTAMP(timezone=True)))
    last_moment = func.greatest(ends_at - _MOMENT, starts_at)
    first = func.greatest(func.width_bucket(starts_at, days), 1)
    last = func.least(func.width_bucket(last_moment, days), len(boundaries) - 1)
    return select(first.label("first"), last.label("last"))


def _later(uow: UnitOfWork, boundaries: Sequence[datetime], schedule_ids: Sequence[str] | None) -> Counter[Span]:
    """Return how many windows that are not stored last over the same days."""
    spans: Counter[Span] = Counter()
    for one in LaterWindows(uow, boundaries[-1], *one_of(Schedule.id, schedule_ids)).ending_after(boundaries[0]):
        if one.window.is_real:
            last_moment = max(one.window.end - _MOMENT, one.window.start)
            first, last = bisect(boundaries, one.window.start), bisect(boundaries, last_moment)
            spans[max(first, 1), min(last, len(boundaries) - 1)] += 1
    return spans
