"""Starting the freezes of due occurrences, with the same service as `POST /v1/freezes`.

Invariants (I7), with any number of workers, even if one dies:

- Once: the row of the occurrence and of its schedule are locked, and rows locked by others are skipped. The freeze and
  the state of the occurrence are committed together. Where very many are due at the same minute, several workers start
  them.
- In order: by start within a schedule, as found across schedules.
- Late rather than never: an open window starts however late it is, and is marked as late. A window that has passed is
  not started any more (`missed_windows.py`).
- Frozen from its start on: while no worker begins it, a due window counts as frozen for every reader, by the same
  predicate (`Occurrence.is_due`), and what changes its freeze begins it (`services/freezes/windows.py`).
- Manual actions are kept: an occurrence that was started early, lifted, extended or skipped is settled.

While the GitHub App is uninstalled nothing starts, neither by hand; a window that is still open when it is installed
again starts then.
"""

from datetime import datetime
from functools import partial
from typing import NamedTuple

from sqlalchemy import select, tuple_

from models.due_windows import may_start
from models.schedules import Occurrence, Schedule
from rules.access.permissions import Actor
from rules.errors import ServiceError
from services.alerts.alerts import open_alert
from services.core.batch import for_each_due
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.freezes.windows import start_window
from services.schedules import alerts
from services.schedules.cancelled_windows import record_cancelled

BATCH_SIZE = 200
"""Occurrences that one query finds."""


class DueOccurrence(NamedTuple):
    """An occurrence that is due."""

    starts_at: datetime
    id: str
    organization_id: str
    schedule_id: str
    schedule_name: str


def start_windows(uow_factory: UnitOfWorkFactory) -> int:
    """Start all due windows, each in its own unit of work; return their number."""
    return for_each_due(
        uow_factory,
        partial(_due, uow_factory),
        partial(_start_one, uow_factory),
        page=BATCH_SIZE,
        group=lambda due: due.schedule_id,
    )


def _due(uow_factory: UnitOfWorkFactory, after: DueOccurrence | None) -> list[DueOccurrence]:
    """Return the next due occurrences, earliest first."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        query = (
            select(
                Occurrence.starts_at, Occurrence.id, Occurrence.organization_id, Occurrence.schedule_id, Schedule.name
            )
            .join(Schedule, Schedule.id == Occurrence.schedule_id)
            .where(Occurrence.is_due(uow.now, schedule_running=True, may_start=may_start(Occurrence.organization_id)))
            .order_by(Occurrence.starts_at, Occurrence.id)
            .limit(BATCH_SIZE)
        )
        if after is not None:
            query = query.where(tuple_(Occurrence.starts_at, Occurrence.id) > (after.starts_at, after.id))
        return [DueOccurrence(*row) for row in uow.session.execute(query)]


def _start_one(uow_factory: UnitOfWorkFactory, due: DueOccurrence) -> bool:
    actor = Actor("schedule", due.schedule_id, due.schedule_name)
    with uow_factory.open(Caller(due.organization_id, actor, "schedule")) as uow:
        return start_due(uow, due.id)


def start_due(uow: UnitOfWork, occurrence_id: str) -> bool:
    """Start an occurrence, or record why not; False if no freeze started: it is settled or locked."""
    found = lock_planned(uow, occurrence_id)
    if found is None:
        return False
    occurrence, schedule = found
    if not occurrence.is_due(uow.now, schedule.is_running, may_start=True):
        return False
    try:
        start_window(uow, schedule, occurrence)
    except ServiceError as error:
        if error.code != "no_targets_in_scope":
            raise
        _skip(uow, schedule, occurrence)
        return False
    return True


def lock_planned(uow: UnitOfWork, occurrence_id: str) -> tuple[Occurrence, Schedule] | None:
    """Lock a planned occurrence with its schedule; None if it is settled, over or locked.

    A future occurrence of a disabled or deleted schedule is deleted.
    """
    found = lock_unsettled(uow, occurrence_id)
    if found is None or found[0].ends_at <= uow.now:
        return None
    occurrence, schedule = found
    if not schedule.is_running:
        uow.session.delete(occurrence)
        record_cancelled(uow, schedule, [occurrence])
        return None
    return occurrence, schedule


def lock_unsettled(uow: UnitOfWork, occurrence_id: str) -> tuple[Occurrence, Schedule] | None:
    """Lock an unsettled occurrence with its schedule; None if it is settled or locked."""
    row = uow.session.execute(
        select(Occurrence, Schedule)
        .join(Schedule, Schedule.id == Occurrence.schedule_id)
        .where(Occurrence.id == occurrence_id, Occurrence.is_unsettled)
        .with_for_update(of=[Occurrence, Schedule], key_share=True, skip_locked=True)
    ).one_or_none()
    return None if row is None else (row[0], row[1])


def _skip(uow: UnitOfWork, schedule: Schedule, occurrence: Occurrence) -> None:
    occurrence.skip_reason, occurrence.skipped_by = "no_targets", uow.actor.as_json()
    alerts.audit_skipped(uow, schedule, occurrence)
    open_alert(uow, alerts.without_targets(uow, schedule, occurrence))
