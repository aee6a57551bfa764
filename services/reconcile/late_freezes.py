"""Freezes whose enforcement is late, although nothing prevents writing their checks: no worker does."""

from datetime import timedelta

from sqlalchemy import func, select, text

from models.freezes import Freeze, FreezeTarget
from models.installations import Installation
from models.queries import NOW
from models.repositories import Repository, WatchedBranch
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.reconcile.leases import BRANCHES

MAX_WRITE_DELAY = timedelta(seconds=60)
"""For how long a branch may be due, and free to be worked on, until its enforcement is late."""
MAX_RECORDED = 200
"""Freezes that one sweep records."""

_DUE_SINCE = func.greatest(WatchedBranch.due_at, Installation.paused_until)
_WAITING = (
    select(FreezeTarget.freeze_id)
    .join(WatchedBranch, WatchedBranch.id == FreezeTarget.branch_id)
    .join(Repository, Repository.id == WatchedBranch.repository_id)
    .join(Installation, Installation.id == Repository.installation_id)
    .where(FreezeTarget.freeze_id == Freeze.id, FreezeTarget.state == "pending")
    .where(Installation.state == "active", BRANCHES.is_available(NOW), _DUE_SINCE <= NOW - MAX_WRITE_DELAY)
)
_LATE = (
    select(Freeze)
    .where(Freeze.is_incomplete, Freeze.is_in_force(NOW), Freeze.late_at.is_(None))
    .where(Freeze.started_at <= NOW - MAX_WRITE_DELAY, _WAITING.exists())
    .order_by(Freeze.id)
    .limit(MAX_RECORDED)
    .with_for_update(key_share=True, skip_locked=True)
)
_PENDING = text("SELECT count(*) FROM freeze_targets WHERE freeze_id = :freeze AND state = 'pending'")


def record_late_freezes(uow_factory: UnitOfWorkFactory) -> int:
    """Record in the audit, once for each, the freezes whose enforcement is late; return their number.

    They are late when the attention item on late enforcement appears.
    """
    with uow_factory.open(SYSTEM_CALLER) as uow:
        late = uow.session.scalars(_LATE, {"now": uow.now}).all()
        for freeze in late:
            freeze.late_at = uow.now
            pending = uow.session.scalar(_PENDING, {"freeze": freeze.id})
            with uow.act_as_service(organization_id=freeze.organization_id):
                target = ("freeze", freeze.id, freeze.reason)
                uow.audit("enforcement.late", target, pendingTargets=pending, startedAt=freeze.started_at)
    return len(late)
