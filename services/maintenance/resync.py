"""The resync: all branches and repositories are read again from GitHub, one round of an installation after the other.

It finds what no webhook told, and checks that others changed. A round is taken in steps: each has the next checks of an
installation, in the order of their ids, read back, and the rules of their branches read. After the last step the
repositories are compared. The next round begins when the period is over. Steps follow each other quickly while the
calls of the last hour are less than a tenth of what GitHub allows at least, and slowly otherwise. So a small
installation is read every few minutes, and a large or busy one as often as takes nothing from a freeze.

An urgent round, after webhooks were lost or the database was restored, waits for nothing.
"""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, text

from models.installations import begin_full_resync
from rules.rate_budget import HOUR
from services.core.batch import acquire_periodic, for_each_isolated
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.enforcement_status.probe_requests import resolve_unprobed_alerts, schedule_probes
from services.installations.sync_requests import request_comparison
from services.reconcile.read_backs import read_back

STEP = 100
"""Checks that one step requests: four queries for their heads, and as many for the rules of their branches."""
STEP_INTERVAL = timedelta(seconds=10)
SLOW_STEP_INTERVAL = timedelta(minutes=5)
"""The same of an installation that has used up its share of the quota."""
MAX_CALLS_AN_HOUR = 500
"""A tenth of the 5,000 that GitHub allows an installation at least; all calls of it count."""
FULL_RESYNC = "full_resync"

_DUE = text("""
    SELECT id FROM installations WHERE organization_id IS NOT NULL AND resync_due_at <= :now
    ORDER BY resync_due_at LIMIT 100
""")
_LOCK = text("""
    SELECT id, state, resync_after, coalesce(resync_began_at, :now) AS began_at, resync_urgent FROM installations
    WHERE id = :id AND resync_due_at <= :now FOR NO KEY UPDATE SKIP LOCKED
""")
_CALLS = text("SELECT coalesce(sum(points), 0) FROM github_api_usage WHERE installation_id = :id AND at > :since")
_NEXT = text("""
    SELECT c.id, c.branch_id, r.removed_at IS NULL AS present
    FROM checks c JOIN repositories r ON r.id = c.repository_id
    WHERE c.installation_id = :id AND c.id > :after ORDER BY c.id LIMIT :limit
""")
_SAVE = text("""
    UPDATE installations SET resync_due_at = :due, resync_after = :after, resync_began_at = :began,
                             resync_urgent = resync_urgent AND :urgent
    WHERE id = :id
""")


def full_resync(uow_factory: UnitOfWorkFactory, period: timedelta) -> bool:
    """Request that everything is read again now, once per period; True if requested."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if not acquire_periodic(uow, FULL_RESYNC, period):
            return False
        begin_full_resync(uow.session, uow.now)
    resync(uow_factory, period)
    return True


def resync(uow_factory: UnitOfWorkFactory, period: timedelta) -> bool:
    """Take the steps that are due, one transaction each; True if any was taken."""
    taken = 0
    while True:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            due = uow.session.scalars(_DUE, {"now": uow.now}).all()
        now_taken = for_each_isolated(due, lambda installation_id: take_one(uow_factory, installation_id, period))
        taken += now_taken
        if not now_taken:
            break
    if taken:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            resolve_unprobed_alerts(uow)
    return taken > 0


def take_one(uow_factory: UnitOfWorkFactory, installation_id: int, period: timedelta) -> bool:
    """Take the step of an installation, if it is due and no other process takes it; True if taken."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        due = uow.session.execute(_LOCK, {"id": installation_id, "now": uow.now}).first()
        if due is not None:
            _take_step(uow, due, period)
        return due is not None


def _take_step(uow: UnitOfWork, due: Row[Any], period: timedelta) -> None:
    """Request the next checks of a locked installation, or its comparison at the end of the round."""
    active = due.state == "active"
    values = {"id": due.id, "after": due.resync_after, "limit": STEP}
    found = uow.session.execute(_NEXT, values).all() if active else []
    present = [row for row in found if row.present]
    if present:
        read_back(uow, [row.id for row in present], at_once=due.resync_urgent)
        schedule_probes(uow, [row.branch_id for row in present if row.branch_id is not None])
    if len(found) == STEP:
        _save(uow, due, uow.now if due.resync_urgent else uow.now + _interval(uow, due.id), found[-1].id)
        return
    request_comparison(uow, [due.id])
    _save(uow, due, max(uow.now + _interval(uow, due.id), due.began_at + period), None)


def _interval(uow: UnitOfWork, installation_id: int) -> timedelta:
    """Return the time until the next step."""
    calls = uow.session.scalar(_CALLS, {"id": installation_id, "since": uow.now - HOUR}) or 0
    return STEP_INTERVAL if calls < MAX_CALLS_AN_HOUR else SLOW_STEP_INTERVAL


def _save(uow: UnitOfWork, due: Row[Any], next_at: datetime, after: int | None) -> None:
    """Save where the round stands; it is over if there is no check after which it goes on."""
    goes_on = after is not None
    values = {"due": next_at, "after": after or 0, "began": due.began_at if goes_on else None, "urgent": goes_on}
    uow.session.execute(_SAVE, {"id": due.id, **values})
