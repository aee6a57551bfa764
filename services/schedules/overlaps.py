"""Overlaps of schedules: their windows intersect within 400 days, and they share a watched branch now.

Branches are compared first (`rules.time.schedule_overlaps`), because most schedules share none, and comparing scopes is
cheaper than comparing hundreds of windows. Windows are stored as multiranges, and the database compares them in one
statement for all schedules that share a branch. Saving a schedule that overlaps is rejected unless one of the two
allows overlaps. Freezes compose, so an overlap that arises later is not an error (`services.schedules.overlap_alerts`),
and what was planned side by side is not rejected later.

Of two schedules of one zone, of which one begins when the other ends, windows can intersect for an hour when the clocks
change. That is no overlap: where the zone is the same, only the clear time of one of them counts (`clear_time_of`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, Self
from zoneinfo import ZoneInfo

import orjson
from sqlalchemy import ColumnElement, Row, Select, Text, case, cast, func, literal, not_, select
from sqlalchemy.dialects.postgresql import TSTZMULTIRANGE, Range
from sqlalchemy.orm import InstrumentedAttribute

from models.queries import any_of
from models.repositories import Repository
from models.schedule_queries import existing
from models.schedules import Schedule, as_multirange
from rules.errors import Detail, ServiceError
from rules.freezes.scope import FreezableBranch
from rules.time.schedule_overlaps import BranchIndex, named_repositories
from rules.time.wall_clock import Interval, Window, clear_time_of, local_time, real_time_of
from services.core.lookups import find_repositories
from services.core.named_locks import acquire_lock
from services.core.unit_of_work import UnitOfWork
from services.freezes.scopes import resolve
from services.schedules.terms import window_of

MAX_LISTED = 100
"""Schedules that a result lists; all are counted."""
SOON = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class Overlap:
    """A schedule that another one overlaps with."""

    schedule_id: str
    schedule_name: str
    first_overlap_at: datetime
    """The first time, not before now, at which both have an open window."""
    allowed: bool
    """True if it allows overlaps itself."""


@dataclass(frozen=True, slots=True)
class Overlaps:
    """The overlaps of a schedule: their number, and the listed ones, earliest first."""

    count: int
    named: Sequence[Overlap]


NONE = Overlaps(0, ())


def require_no_overlap(uow: UnitOfWork, schedule: Schedule, beside: Collection[str] = ()) -> None:
    """Raise `schedule_overlap` if the windows of an enabled schedule overlap with others, and neither allows it.

    `beside` are the ids of the schedules with which it may. An advisory lock serializes comparisons in the organisation
    until the commit, so that of two overlapping schedules that are saved at the same time the second one is rejected.
    """
    acquire_lock(uow, f"schedules {uow.organization}")
    refusal = refusal_of(refused_overlaps(uow, schedule, beside))
    if refusal is not None:
        raise refusal


def refused_overlaps(
    uow: UnitOfWork, schedule: Schedule, beside: Collection[str], reached: Sequence[FreezableBranch] | None = None
) -> Overlaps:
    """Return the overlaps that neither schedule allows, but for those with the schedules `beside`, by their ids."""
    return overlaps_of(uow, schedule, not_(Schedule.allow_overlap), Schedule.id.not_in(beside), reached=reached)


def refusal_of(found: Overlaps) -> ServiceError | None:
    """Return `schedule_overlap` if there are overlaps."""
    if not found.count:
        return None
    others = f" and {found.count - 1} more" if found.count > 1 else ""
    first = found.named[0]
    return ServiceError(
        "schedule_overlap",
        f"Its windows overlap with those of {first.schedule_name!r}{others} on branches that both freeze, from "
        f"{format_minute(first.first_overlap_at)} on. Change one of them, or send allowOverlap: true.",
        details=tuple(_detail(overlap) for overlap in found.named),
    )


def ids_overlapping(uow: UnitOfWork, schedule: Schedule) -> list[str]:
    """Return the ids of the other enabled schedules that one overlaps with."""
    query = _meeting(uow, schedule, _Times.of(schedule, uow.now))
    return [] if query is None else list(uow.session.scalars(query.with_only_columns(Schedule.id)))


def format_minute(instant: datetime) -> str:
    """Return an instant as messages show it, such as `2026-11-21 12:00 UTC`."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _detail(overlap: Overlap) -> Detail:
    return Detail(
        "/window",
        f"overlaps with {overlap.schedule_name!r} from {format_minute(overlap.first_overlap_at)} on",
        "schedule_overlap",
        {
            "scheduleId": overlap.schedule_id,
            "scheduleName": overlap.schedule_name,
            "firstOverlapAt": overlap.first_overlap_at,
        },
    )


def overlaps_of(
    uow: UnitOfWork,
    schedule: Schedule,
    *conditions: ColumnElement[bool],
    reached: Sequence[FreezableBranch] | None = None,
) -> Overlaps:
    """Return the other enabled schedules that one overlaps with, whether allowed or not.

    It need not be stored: only its scope, zone, windows and id (if any) are used. `conditions` restrict the others;
    `reached` are the branches of its scope, if already known.
    """
    times = _Times.of(schedule, uow.now)
    if not times.real:
        return NONE
    query = _meeting(uow, schedule, times, *conditions, reached=reached)
    if query is None:
        return NONE
    soon = uow.now + SOON
    # One statement, since schedules that meet may be changed before the next one.
    met = query.order_by(Schedule.id).limit(MAX_LISTED).subquery().c
    # Most meet soon, and then the hundreds of windows after that need not be held against each other.
    first = times.choose(
        met.timezone,
        lambda windows: func.coalesce(
            _first_meeting(met.windows, _read_once([one for one in windows if one.lower and one.lower < soon])),
            _first_meeting(met.windows, _read_once(windows)),
        ),
    )
    named = select(met.id, met.name, first.label("first"), met.allow_overlap, met.total).order_by("first", met.id)
    rows = uow.session.execute(named).all()
    return Overlaps(rows[0].total, [Overlap(*row[:4]) for row in rows]) if rows else NONE


def _meeting(
    uow: UnitOfWork,
    schedule: Schedule,
    times: "_Times",
    *conditions: ColumnElement[bool],
    reached: Sequence[FreezableBranch] | None = None,
) -> Select[*tuple[Any, ...]] | None:
    """Return the query for the others whose windows meet these on a shared branch; None if none shares a branch."""
    query = select(Schedule.id, cast(Schedule.scope, Text)).where(
        existing(uow.organization), Schedule.enabled, Schedule.id.is_distinct_from(schedule.id), *conditions
    )
    others = uow.session.execute(query.where(Schedule.windows.is_not(None))).all() if times.real else ()
    if others and reached is None:
        reached = resolve(uow, schedule.scope, stored=True).branches
    sharing = covering_schedules(uow, BranchIndex(reached or ()), others)
    if not sharing:
        return None
    columns = (Schedule.id, Schedule.name, Schedule.timezone, Schedule.windows, Schedule.allow_overlap)
    meets = times.choose(Schedule.timezone, lambda windows: Schedule.windows.op("&&")(_read_once(windows)))
    return select(*columns, func.count().over().label("total")).where(Schedule.id == any_of(sharing), meets)


@dataclass(frozen=True, slots=True)
class _Times:
    """What is left of the windows of a schedule from now on."""

    timezone: str
    real: list[Range[datetime]]
    clear: list[Range[datetime]]
    """Without the time that is theirs by one reading of the clocks only: what counts beside schedules of its zone."""

    @classmethod
    def of(cls, schedule: Schedule, now: datetime) -> Self:
        """Return the times of a schedule, stored or not."""
        windows = schedule.windows or ()
        return cls(schedule.timezone, _from_now(windows, now), _from_now(clear_times(schedule, windows), now))

    def choose(
        self,
        timezone: ColumnElement[str] | InstrumentedAttribute[str],
        of: Callable[[list[Range[datetime]]], ColumnElement[Any]],
    ) -> ColumnElement[Any]:
        """Return an expression of the times that count beside a schedule of a zone, which a column has."""
        if self.clear == self.real:
            return of(self.real)
        return case((timezone == self.timezone, of(self.clear)), else_=of(self.real))


def clear_times(schedule: Schedule, windows: Iterable[Range[datetime]]) -> list[Range[datetime]]:
    """Return the clear time of windows of a schedule; of one that does not follow from its terms, the real time."""
    zone, window = ZoneInfo(schedule.timezone), window_of(schedule.window)
    return [one for each in windows if (one := _clear_time(each, window, zone)) is not None]


def _clear_time(each: Range[datetime], window: Window, zone: ZoneInfo) -> Range[datetime] | None:
    """Return the clear time of a window; None if there is none."""
    if each.lower is None or each.upper is None:
        return each
    day = local_time(each.lower, zone).date()
    clear = clear_time_of(window, day, zone)
    if (clear.start, clear.end) == (each.lower, each.upper) or real_time_of(window, day, zone) != Interval(
        each.lower, each.upper
    ):
        return each
    return Range(clear.start, clear.end) if clear.is_real else None


def _from_now(windows: Sequence[Range[datetime]], now: datetime) -> list[Range[datetime]]:
    """Return what is left of windows from a time on."""
    return [
        Range(max(window.lower, now), window.upper)
        for window in windows
        if window.lower is not None and window.upper is not None and window.upper > now
    ]


def _read_once(windows: Sequence[Range[datetime]]) -> ColumnElement[Any]:
    """Return windows as an expression that the database evaluates once, not per row."""
    return select(cast(literal(as_multirange(windows), Text), TSTZMULTIRANGE)).scalar_subquery()


def _first_meeting(one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[datetime]:
    """Return the first time that two multiranges share, as an expression; NULL if there is none."""
    return func.lower(one.op("*", return_type=TSTZMULTIRANGE())(other), type_=Schedule.created_at.type)


def covering_schedules(uow: UnitOfWork, index: BranchIndex, others: Sequence[Row[str, str]]) -> list[str]:
    """Return the ids of schedules whose scopes cover one of the branches.

    Scopes come as text from the database, equal for equal scopes, so that each is evaluated once.
    """
    if not index.repositories:
        return []
    scopes: dict[str, Mapping[str, Any]] = {scope: orjson.loads(scope) for scope in {scope for _, scope in others}}
    known = _ids_of(uow, _possible_names(uow, index, named_repositories(scopes.values())))
    shares = {scope for scope, other in scopes.items() if next(index.reached(other, known), None) is not None}
    return [schedule_id for schedule_id, scope in others if scope in shares]


def _ids_of(uow: UnitOfWork, names: Collection[str]) -> dict[str, str]:
    """Return the ids of the repositories that have these names, by name."""
    return {name: found.id for name, found in find_repositories(uow, names).items()} if names else {}


def _possible_names(uow: UnitOfWork, index: BranchIndex, names: Collection[str]) -> set[str]:
    """Return those of many names that may match a repository of the index, also by a former name.

    A thousand schedules name ten thousand repositories, and looking all of them up takes a second.
    """
    if not names:
        return set()
    former = select(Repository.former_names).where(Repository.id == any_of(index.repositories), Repository.renamed)
    of_index = {*index.repositories.values(), *chain.from_iterable(uow.session.scalars(former))}
    return {name for name in names if name in index.repositories or name.lower() in of_index}
