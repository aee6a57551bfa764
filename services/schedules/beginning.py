"""Beginning windows: an occurrence that is due starts its freeze, by the service that `POST /v1/freezes` uses.

Properties (I7), with any number of sweepers, whenever one of them dies:

- Once each: whoever begins a window locks its row, and its schedule's, and passes over what another one has locked;
  the freeze and what is recorded of the occurrence are one commit.
- In order: of one schedule as they begin, across schedules as they are found.
- Late rather than never: a window that is still open begins however late it is, and says so. One that has wholly
  passed is not begun any more (`missing.py`).
- What was done by hand stays: an occurrence that was begun early, lifted, extended or skipped is settled.

Where the App is uninstalled nothing begins, as nothing can be started by hand; a window that is still open when it
comes back begins then.
"""

from datetime import datetime, timedelta
from time import monotonic
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row, and_, select, tuple_

from models.freezes import Freeze
from models.installations import Installation
from models.organizations import Organization
from models.schedules import Occurrence, Schedule
from rules.access.permissions import SYSTEM, Actor
from rules.errors import ServiceError
from services.alerts.alerts import open_alert, resolve_alerts
from services.core.batch import for_each_isolated
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.freezes.start import NewFreeze, start
from services.freezes.targets import add_remaining_targets
from services.schedules import alerts

LATE_AFTER = timedelta(seconds=60)
"""A window that begins later than this after its start is late: nobody was there to begin it."""
PAGE = 200
LONGEST = 1.0
"""Seconds that one look spends on covering more: windows have to begin and end on time meanwhile."""


class Due(NamedTuple):
    """An occurrence that is to begin."""

    starts_at: datetime
    id: str
    organization_id: str
    schedule_id: str
    schedule: str


def begin_windows(uow_factory: UnitOfWorkFactory) -> int:
    """Begin every window that is due, each in a unit of its own; returns how many began."""
    begun, after = 0, None
    while found := _due(uow_factory, after):
        begun += for_each_isolated(found, lambda due: _begin_one(uow_factory, due))
        after = found[-1]
    return begun


def _due(uow_factory: UnitOfWorkFactory, after: Due | None) -> list[Due]:
    """Return the next of those that are due, the one that should have begun first first."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        query = (
            select(
                Occurrence.starts_at, Occurrence.id, Occurrence.organization_id, Occurrence.schedule_id, Schedule.name
            )
            .join(Schedule, Schedule.id == Occurrence.schedule_id)
            .join(Organization, Organization.id == Occurrence.organization_id)
            .where(Occurrence.is_planned(uow.now), Occurrence.starts_at <= uow.now, Organization.deleted_at.is_(None))
            .where(~uninstalled(Occurrence.organization_id))
            .order_by(Occurrence.starts_at, Occurrence.id)
            .limit(PAGE)
        )
        if after is not None:
            query = query.where(tuple_(Occurrence.starts_at, Occurrence.id) > (after.starts_at, after.id))
        return [Due(*row) for row in uow.session.execute(query)]


def uninstalled(organization_id: Any) -> ColumnElement[bool]:
    """Return the condition that an organisation (an id, or a column) had the App installed, and has not any more."""
    of = select(Installation.id).where(Installation.organization_id == organization_id)
    return and_(of.exists(), ~of.where(Installation.state != "removed").exists())


def _begin_one(uow_factory: UnitOfWorkFactory, due: Due) -> bool:
    actor = Actor("schedule", due.schedule_id, due.schedule)
    with uow_factory.open(Caller(due.organization_id, actor, "schedule")) as uow:
        return begin_due(uow, due.id)


def begin_due(uow: UnitOfWork, occurrence_id: str) -> bool:
    """Begin an occurrence, or record why not; False when no freeze began: it is settled, or somebody else has it."""
    found = lock_planned(uow, occurrence_id)
    if found is None:
        return False
    occurrence, schedule = found
    try:
        begin(uow, schedule, occurrence)
    except ServiceError as error:
        if error.code != "no_targets_in_scope":
            raise
        _skip(uow, schedule, occurrence)
        return False
    return True


def lock_planned(uow: UnitOfWork, occurrence_id: str) -> tuple[Occurrence, Schedule] | None:
    """Lock an occurrence that is planned, with its schedule; None when it is settled, over, or locked.

    One that is to come, of a schedule that is disabled or deleted, is removed.
    """
    found = lock_unsettled(uow, occurrence_id)
    if found is None or found[0].ends_at <= uow.now:
        return None
    occurrence, schedule = found
    if not schedule.enabled or schedule.deleted_at is not None:
        uow.session.delete(occurrence)
        return None
    return occurrence, schedule


def lock_unsettled(uow: UnitOfWork, occurrence_id: str) -> tuple[Occurrence, Schedule] | None:
    """Lock an occurrence of which nothing is recorded, with its schedule; None when it is settled, or locked."""
    row = uow.session.execute(
        select(Occurrence, Schedule)
        .join(Schedule, Schedule.id == Occurrence.schedule_id)
        .where(Occurrence.id == occurrence_id, Occurrence.is_unsettled)
        .with_for_update(of=[Occurrence, Schedule], key_share=True, skip_locked=True)
    ).one_or_none()
    return None if row is None else (row[0], row[1])


def begin(uow: UnitOfWork, schedule: Schedule, occurrence: Occurrence) -> Freeze:
    """Start the freeze of a locked occurrence, as whoever the unit belongs to; raises `no_targets_in_scope`."""
    late_by = uow.now - (occurrence.due_at or occurrence.starts_at)
    is_late = late_by > LATE_AFTER
    wanted = NewFreeze(
        schedule.scope,
        schedule.reason,
        occurrence.ends_at,
        schedule.exceptions_allowed,
        source="schedule",
        schedule_id=schedule.id,
        occurrence_id=occurrence.id,
        seconds_late=int(late_by.total_seconds()) if is_late else None,
    )
    freeze = start(uow, wanted, max_targets=uow.dependencies.max_targets)
    occurrence.begun_at, occurrence.freeze_id, occurrence.late = uow.now, freeze.id, is_late
    resolve_alerts(uow, alerts.of_windows_past(schedule))
    return freeze


def _skip(uow: UnitOfWork, schedule: Schedule, occurrence: Occurrence) -> None:
    occurrence.skip_reason, occurrence.skipped_by = "no_targets", uow.actor.as_json()
    alerts.audit_skipped(uow, schedule, occurrence)
    open_alert(uow, alerts.without_targets(uow, schedule, occurrence))


def cover_the_rest(uow_factory: UnitOfWorkFactory) -> None:
    """Cover what freezes of very many branches have left over, a batch of each in turn, for a while."""
    end = monotonic() + LONGEST
    query = select(Freeze.id, Freeze.organization_id).where(Freeze.partly_covered).order_by(Freeze.id)
    while monotonic() < end:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            left = uow.session.execute(query).all()
        if not for_each_isolated(left, lambda row: _cover_one(uow_factory, row)):
            return


def _cover_one(uow_factory: UnitOfWorkFactory, row: Row[str, str]) -> bool:
    freeze_id, organization_id = row
    with uow_factory.open(Caller(organization_id, SYSTEM, "system")) as uow:
        return add_remaining_targets(uow, freeze_id, max_targets=uow.dependencies.max_targets)
