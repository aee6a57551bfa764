"""Queries that several services of schedules share: occurrences with their freezes, and the next one of a schedule."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, select
from sqlalchemy.orm import load_only

from models.freezes import Freeze
from models.schedules import Occurrence, Schedule

ONLY_INSTANTS = load_only(Freeze.started_at, Freeze.ends_at, Freeze.ended_at)
"""What the state of an occurrence follows from, of its freeze: half of a row would be its scope and its people."""


def with_freezes() -> Select[Occurrence, Freeze | None]:
    """Return the query of all occurrences, each with the freeze that it started, or None; to be read only."""
    query = select(Occurrence, Freeze).outerjoin(Freeze, Freeze.id == Occurrence.freeze_id)
    return query.options(ONLY_INSTANTS)


def next_planned(schedule_id: Any, now: datetime) -> Select[Occurrence]:
    """Return the query of the planned occurrence of a schedule (an id, or a column) that begins first."""
    query = select(Occurrence).where(Occurrence.schedule_id == schedule_id, Occurrence.is_planned(now))
    return query.order_by(Occurrence.starts_at).limit(1)


def existing(organization_id: str) -> ColumnElement[bool]:
    """Return the condition that a schedule is the organisation's, and not deleted."""
    return and_(Schedule.organization_id == organization_id, Schedule.deleted_at.is_(None))


def next_start(now: datetime) -> ColumnElement[datetime]:
    """Return when the next occurrence of the schedule of a row begins, as an expression; NULL when none is planned."""
    first = select(func.min(Occurrence.starts_at)).where(
        Occurrence.schedule_id == Schedule.id, Occurrence.is_planned(now)
    )
    return first.correlate(Schedule).scalar_subquery()
