"""Queries that several services of schedules share: in which state an occurrence is, and which one comes next.

An occurrence's state is derived from its instants and its freeze. `services.schedules.occurrence_views` says the same
of rows in hand; a test holds the two together. Whoever uses `state_is` has `Freeze` joined by `with_freezes`.
"""

from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, and_, func, not_, or_, select
from sqlalchemy.orm import load_only

from models.freezes import Freeze
from models.queries import in_force
from models.schedules import Occurrence, Schedule

OccurrenceState = Literal["planned", "active", "past", "skipped"]


ONLY_INSTANTS = load_only(Freeze.started_at, Freeze.ends_at, Freeze.ended_at)
"""What the state of an occurrence follows from, of its freeze: half of a row would be its scope and its people."""


def with_freezes() -> Select[Occurrence, Freeze | None]:
    """Return the query of all occurrences, each with the freeze that it started, or None; to be read only."""
    query = select(Occurrence, Freeze).outerjoin(Freeze, Freeze.id == Occurrence.freeze_id)
    return query.options(ONLY_INSTANTS)


def state_is(state: OccurrenceState, now: datetime) -> ColumnElement[bool]:
    """Return the SQL twin of `occurrence_views.state_of`."""
    skipped, begun = Occurrence.skip_reason.is_not(None), Occurrence.begun_at.is_not(None)
    frozen = and_(Occurrence.freeze_id.is_not(None), in_force(now))
    past = or_(Occurrence.ends_at <= now, and_(begun, not_(frozen)))
    return {
        "skipped": skipped,
        "past": and_(not_(skipped), past),
        "active": and_(not_(skipped), begun, frozen, Occurrence.ends_at > now),
        "planned": planned(now),
    }[state]


def unsettled() -> ColumnElement[bool]:
    """Return the condition that nothing has been recorded of an occurrence yet; that of two indexes."""
    return and_(Occurrence.begun_at.is_(None), Occurrence.skip_reason.is_(None), Occurrence.missed_at.is_(None))


def planned(now: datetime) -> ColumnElement[bool]:
    """Return the condition that an occurrence is to come, or is open and about to begin; needs no freeze joined."""
    return and_(unsettled(), Occurrence.ends_at > now)


def missed(now: datetime) -> ColumnElement[bool]:
    """Return the SQL twin of `occurrence_views.is_missed`."""
    return and_(Occurrence.begun_at.is_(None), Occurrence.skip_reason.is_(None), Occurrence.ends_at <= now)


def next_planned(schedule_id: Any, now: datetime) -> Select[Occurrence]:
    """Return the query of the planned occurrence of a schedule (an id, or a column) that begins first."""
    query = select(Occurrence).where(Occurrence.schedule_id == schedule_id, planned(now))
    return query.order_by(Occurrence.starts_at).limit(1)


def existing(organization_id: str) -> ColumnElement[bool]:
    """Return the condition that a schedule is the organisation's, and not deleted."""
    return and_(Schedule.organization_id == organization_id, Schedule.deleted_at.is_(None))


def next_start(now: datetime) -> ColumnElement[datetime]:
    """Return when the next occurrence of the schedule of a row begins, as an expression; NULL when none is planned."""
    first = select(func.min(Occurrence.starts_at)).where(Occurrence.schedule_id == Schedule.id, planned(now))
    return first.correlate(Schedule).scalar_subquery()
