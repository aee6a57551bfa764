"""Tasks of the sweep: record what has become due, and find lost work.

Every task is idempotent and safe with any number of processes: rows are locked or skipped, and a periodic task is run
by the process that acquires its period.
"""

from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import NamedTuple

from sqlalchemy import func, select, tuple_

from models.freezes import Freeze
from models.schedules import Occurrence
from rules.freezes.limits import FreezeLimits
from services.core.batch import acquire_periodic, for_each_due, for_each_in_organization
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory, system_caller
from services.enforcement_status.frozen_branch_requests import request_stops_while_paused
from services.enforcement_status.probe_requests import schedule_probes_of_frozen
from services.freezes.completion import next_in_force, record_enforcement, repair_releases
from services.freezes.end import expire_freeze
from services.freezes.failures import record_recovered, repair_failures
from services.freezes.targets import add_remaining_targets
from services.identity import signing_keys
from services.pull_request_exceptions.expiry import next_end as next_end_of_exceptions

MAX_ENDED_AT_ONCE = 200
REVIEW_INTERVAL = timedelta(seconds=10)
READ_INTERVAL = timedelta(minutes=10)
"""After which the rules of a frozen branch are read again: a third of the time for which a reading counts."""
MAX_COVERING_SECONDS = 1.0
"""Time limit for adding targets per sweep, since windows must start and end on time meanwhile."""


class _OverFreeze(NamedTuple):
    """A freeze whose end has come."""

    ends_at: datetime | None
    id: str
    organization_id: str


def end_freezes(uow_factory: UnitOfWorkFactory) -> int:
    """Record the end of freezes that have reached it, each in its own unit of work; return their number."""
    return for_each_due(
        uow_factory,
        partial(_over, uow_factory),
        partial(_end_one, uow_factory),
        page=MAX_ENDED_AT_ONCE,
        group=lambda over: over.id,
    )


def _over(uow_factory: UnitOfWorkFactory, after: _OverFreeze | None) -> list[_OverFreeze]:
    """Return the next freezes whose end has come, earliest first."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        query = (
            select(Freeze.ends_at, Freeze.id, Freeze.organization_id)
            .where(Freeze.ended_at.is_(None), Freeze.ends_at <= uow.now)
            .order_by(Freeze.ends_at, Freeze.id)
            .limit(MAX_ENDED_AT_ONCE)
        )
        if after is not None:
            query = query.where(tuple_(Freeze.ends_at, Freeze.id) > (after.ends_at, after.id))
        return [_OverFreeze(*row) for row in uow.session.execute(query)]


def _end_one(uow_factory: UnitOfWorkFactory, over: _OverFreeze) -> bool:
    with uow_factory.open(system_caller(over.organization_id)) as uow:
        return expire_freeze(uow, over.id)


def cover_remaining(uow_factory: UnitOfWorkFactory) -> None:
    """Add the remaining targets of very large freezes, one batch per freeze in turn, for a limited time."""
    end = monotonic() + MAX_COVERING_SECONDS
    query = select(Freeze.id, Freeze.organization_id).where(Freeze.targets_pending).order_by(Freeze.id)
    while monotonic() < end:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            left = uow.session.execute(query).all()
        if not for_each_in_organization(uow_factory, left, _cover):
            return


def _cover(uow: UnitOfWork, freeze_id: str) -> bool:
    return add_remaining_targets(uow, freeze_id, max_targets=uow.ports[FreezeLimits].max_targets)


def seconds_to_next(uow_factory: UnitOfWorkFactory) -> float | None:
    """Return the seconds until the next window start, freeze end or exception end; None if there is none."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        next_start = select(func.min(Occurrence.starts_at)).where(
            Occurrence.is_unsettled, Occurrence.starts_at > uow.now
        )
        next_end = select(func.min(Freeze.ends_at)).where(Freeze.ended_at.is_(None), Freeze.ends_at > uow.now)
        found = uow.session.execute(select(next_start.scalar_subquery(), next_end.scalar_subquery())).one()
        instants = (*found, next_end_of_exceptions(uow))
        return min(((at - uow.now).total_seconds() for at in instants if at is not None), default=None)


def repair_completions(uow_factory: UnitOfWorkFactory) -> None:
    """Mark freezes as released, recovered or failing, whose worker did not."""
    for repair in (repair_releases, record_recovered, repair_failures):
        with uow_factory.open(SYSTEM_CALLER) as uow:
            repair(uow)


def review_enforcement(uow_factory: UnitOfWorkFactory) -> bool:
    """Record which freezes in force are enforced now, or not any more, every ten seconds; True if it ran.

    Most of that is recorded when it happens; but rules get old and writes get late without anything happening. Freezes
    whose checks have to wait get stops.
    """
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if not acquire_periodic(uow, "enforcement", REVIEW_INTERVAL):
            return False
        schedule_probes_of_frozen(uow, uow.now - READ_INTERVAL)
        request_stops_while_paused(uow)
    after = ""
    while True:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            found = next_in_force(uow, after)
            record_enforcement(uow, found)
        if not found:
            return True
        after = found[-1]


def rotate_keys(uow_factory: UnitOfWorkFactory) -> bool:
    """Publish, retire and delete signing keys, once per hour; True if it ran."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if not acquire_periodic(uow, "signing_keys", timedelta(hours=1)):
            return False
        signing_keys.rotate(uow)
    return True
