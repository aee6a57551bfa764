"""Which schedules collide with one: their windows intersect within 400 days, and they share a watched branch now.

Branches are compared first, by `rules.time.schedule_overlaps`: most schedules share none, and what scopes say is read
and compared sooner than their windows, hundreds each. Those, kept as multiranges, the database compares in one
statement for all schedules that share a branch. When somebody saves a schedule that collides it is refused, unless
they allow it; freezes compose, so an overlap that arises later is never an error
(`services.schedules.overlap_items`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Row, Text, cast, func, literal, select, text
from sqlalchemy.dialects.postgresql import TSTZMULTIRANGE, Range

from models.queries import any_of
from models.repositories import Repository
from models.schedule_queries import existing
from models.schedules import Schedule, as_multirange
from rules.errors import Detail, ServiceError
from rules.freezes.scope import BranchFact
from rules.time.schedule_overlaps import Ground, named_repositories
from services.core.lookups import find_repositories
from services.core.unit_of_work import UnitOfWork
from services.freezes.scopes import resolve

MOST_NAMED = 100
"""Schedules that an answer names; all of them are counted."""
SOON = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class Overlap:
    """A schedule that another one collides with."""

    schedule_id: str
    schedule_name: str
    first_overlap_at: datetime
    """The first instant, not before now, at which a window of each is open."""
    allowed: bool
    """Whether it says itself that it may overlap."""


@dataclass(frozen=True, slots=True)
class Overlaps:
    """What a schedule collides with: how many there are, and those that are named, the soonest first."""

    count: int
    named: Sequence[Overlap]


NONE = Overlaps(0, ())


def refuse_overlaps(uow: UnitOfWork, schedule: Schedule) -> None:
    """Raise `schedule_overlap`, naming what an enabled schedule with its planned windows collides with.

    Holds until the commit that schedules of the organisation are compared one after the other, so that of two that
    collide and are saved at once the second one is refused.
    """
    key = {"key": f"schedules {uow.organization}"}
    uow.session.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:key, 0))"), key)
    found = overlaps_of(uow, schedule)
    if not found.count:
        return
    others = f" and {found.count - 1} more" if found.count > 1 else ""
    first = found.named[0]
    raise ServiceError(
        "schedule_overlap",
        f"Its windows overlap with those of {first.schedule_name!r}{others} on branches that both freeze, from "
        f"{told(first.first_overlap_at)} on. Change one of them, or send allowOverlap: true.",
        details=tuple(_detail(overlap) for overlap in found.named),
    )


def told(instant: datetime) -> str:
    """Return an instant as a sentence says it."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _detail(overlap: Overlap) -> Detail:
    return Detail(
        "/window",
        f"overlaps with {overlap.schedule_name!r} from {told(overlap.first_overlap_at)} on",
        "schedule_overlap",
        {
            "scheduleId": overlap.schedule_id,
            "scheduleName": overlap.schedule_name,
            "firstOverlapAt": overlap.first_overlap_at,
        },
    )


def overlaps_of(
    uow: UnitOfWork, schedule: Schedule, *conditions: ColumnElement[bool], reached: Sequence[BranchFact] | None = None
) -> Overlaps:
    """Return the other enabled schedules that one collides with, whether somebody allows it or not.

    It need not be stored: its scope and windows count, and its id where it has one. `conditions` narrow the others;
    `reached` are the branches of its scope, where somebody has them already.
    """
    windows = _from_now(schedule.windows or (), uow.now)
    if not windows:
        return NONE
    soon = [window for window in windows if window.lower and window.lower < uow.now + SOON]
    query = select(Schedule.id, cast(Schedule.scope, Text)).where(
        existing(uow.organization), Schedule.enabled, Schedule.id.is_distinct_from(schedule.id), *conditions
    )
    query = query.where(Schedule.windows.is_not(None))
    others = uow.session.execute(query).all()
    if others and reached is None:
        reached = resolve(uow, schedule.scope, stored=True).branches
    sharing = _sharing(uow, Ground(reached or ()), others)
    if not sharing:
        return NONE
    mine = _read_once(windows)
    # One statement, since schedules that meet may be changed before the next one.
    meeting = (
        select(Schedule.id, Schedule.name, Schedule.windows, Schedule.allow_overlap, func.count().over().label("total"))
        .where(Schedule.id == any_of(sharing), Schedule.windows.op("&&")(mine))
        .order_by(Schedule.id)
        .limit(MOST_NAMED)
        .subquery()
    )
    met = meeting.c
    # Most meet soon, and then the hundreds of windows after that need not be held against each other.
    first = func.coalesce(_first_meeting(met.windows, _read_once(soon)), _first_meeting(met.windows, mine))
    named = select(met.id, met.name, first.label("first"), met.allow_overlap, met.total).order_by("first", met.id)
    rows = uow.session.execute(named).all()
    return Overlaps(rows[0].total, [Overlap(*row[:4]) for row in rows]) if rows else NONE


def _from_now(windows: Sequence[Range[datetime]], now: datetime) -> list[Range[datetime]]:
    """Return what is left of windows from an instant on."""
    return [
        Range(max(window.lower, now), window.upper)
        for window in windows
        if window.lower is not None and window.upper is not None and window.upper > now
    ]


def _read_once(windows: Sequence[Range[datetime]]) -> ColumnElement[Any]:
    """Return windows as an expression that the database reads once, not for each row."""
    return select(cast(literal(as_multirange(windows), Text), TSTZMULTIRANGE)).scalar_subquery()


def _first_meeting(one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[datetime]:
    """Return the first instant that two multiranges share, as an expression; NULL when there is none."""
    return func.lower(one.op("*", return_type=TSTZMULTIRANGE())(other), type_=Schedule.created_at.type)


def _sharing(uow: UnitOfWork, ground: Ground, others: Sequence[Row[str, str]]) -> list[str]:
    """Return the ids of schedules whose scopes reach a branch of the ground; scopes alike are asked once.

    Scopes come as the database tells them, which is the same of scopes alike, so that each is read once.
    """
    if not ground.repositories:
        return []
    scopes: dict[str, Mapping[str, Any]] = {told: orjson.loads(told) for told in {told for _, told in others}}
    known = _known(uow, _leading_there(uow, ground, named_repositories(scopes.values())))
    shares = {told for told, other in scopes.items() if next(ground.reached(other, known), None) is not None}
    return [schedule_id for schedule_id, told in others if told in shares]


def _known(uow: UnitOfWork, names: Collection[str]) -> dict[str, str]:
    """Return the ids of the repositories that names lead to, by name."""
    return {name: found.id for name, found in find_repositories(uow, names).items()} if names else {}


def _leading_there(uow: UnitOfWork, ground: Ground, names: Collection[str]) -> set[str]:
    """Return those of many names that can lead to a repository of the ground, also by what it was called before.

    A thousand schedules name ten thousand repositories, and to find them all takes a second.
    """
    if not names:
        return set()
    former = select(Repository.former_names).where(
        Repository.id == any_of(ground.repositories), func.cardinality(Repository.former_names) > 0
    )
    there = {*ground.repositories.values(), *chain.from_iterable(uow.session.scalars(former))}
    return {name for name in names if name in ground.repositories or name.lower() in there}
