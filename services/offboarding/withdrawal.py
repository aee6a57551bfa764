"""Taking back what a deleted organisation leaves at the code host: the rules that we wrote for it.

One lease does one organisation, prolonged before each ruleset. What fails for a while is tried again, for a day; then,
or when nobody but a person can mend it, the owners are told what is left. A worker that dies leaves the lease to run
out: what it had removed is recorded, and the rest is done by whoever comes next.
"""

import logging
import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text

from integrations.github import GitHub
from rules.access.permissions import SYSTEM
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWork, UnitOfWorkFactory
from services.enforcement.withdrawing import Left, withdraw
from services.mail.outbox import enqueue_mail
from services.offboarding.deletion import owners

logger = logging.getLogger(__name__)

LEASE = timedelta(minutes=3)
"""Longer than the calls that one ruleset takes."""
FIRST_RETRY = timedelta(seconds=30)
LONGEST_RETRY = timedelta(hours=1)
MOST_TRIES = 30
"""About a day."""
_MOST_DOUBLINGS = 10

_WAITING = (
    "withdrawal_due_at <= :now AND (withdrawal_lease_until IS NULL OR withdrawal_lease_until <= :now) "
    "AND purged_at IS NULL"
)
_WAITS = text(f"SELECT EXISTS (SELECT FROM organizations WHERE {_WAITING})")  # noqa: S608 - a constant of ours
_LEASE = text(f"""
    UPDATE organizations SET withdrawal_lease_until = :until, withdrawal_attempts = withdrawal_attempts + 1
    WHERE id = (SELECT id FROM organizations WHERE {_WAITING}
                ORDER BY withdrawal_due_at, id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING id, name, withdrawal_attempts
""")  # noqa: S608 - the same
_KEEP = text("""
    UPDATE organizations SET withdrawal_lease_until = :until
    WHERE id = :id AND withdrawal_lease_until = :mine AND withdrawal_lease_until > :now
    RETURNING withdrawal_lease_until
""")
_RELEASE = text("""
    UPDATE organizations SET withdrawal_lease_until = NULL, withdrawal_due_at = :due
    WHERE id = :id AND withdrawal_lease_until = :mine
    RETURNING id
""")


class LeaseLostError(Exception):
    """Somebody else may be at this organisation by now."""


@dataclass(slots=True)
class _Lease:
    """One organisation, ours until `until`."""

    uow_factory: UnitOfWorkFactory
    organization_id: str
    name: str
    tries: int
    until: datetime

    @property
    def caller(self) -> Caller:
        return Caller(self.organization_id, SYSTEM, "system")

    def keep(self) -> None:
        """Prolong the lease; raises `LeaseLostError` if it has run out."""
        with self.uow_factory.open(self.caller) as uow:
            values = {"id": self.organization_id, "mine": self.until, "now": uow.now, "until": uow.now + LEASE}
            renewed: datetime | None = uow.session.execute(_KEEP, values).scalar()
        if renewed is None:
            raise LeaseLostError
        self.until = renewed

    def release(self, uow: UnitOfWork, due: datetime | None) -> None:
        """Give the organisation back, due at that time; raises `LeaseLostError`."""
        values = {"id": self.organization_id, "mine": self.until, "due": due}
        if uow.session.execute(_RELEASE, values).scalar() is None:
            raise LeaseLostError


def withdrawals_wait(uow: UnitOfWork) -> bool:
    """Tell whether a deleted organisation's rules are to be removed and nobody is at it; for the sweeper."""
    return bool(uow.session.scalar(_WAITS, {"now": uow.now}))


def withdraw_due(uow_factory: UnitOfWorkFactory, github: GitHub) -> bool:
    """Remove the rules of one deleted organisation; False when none is due."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        until = uow.now + LEASE
        row = uow.session.execute(_LEASE, {"now": uow.now, "until": until}).one_or_none()
    if row is None:
        return False
    lease = _Lease(uow_factory, row.id, row.name, row.withdrawal_attempts, until)
    try:
        _settle(lease, withdraw(uow_factory, github, lease.caller, lease.keep))
    except LeaseLostError:
        logger.warning("the rules of %s took longer to remove than the lease", lease.organization_id)
    return True


def _settle(lease: _Lease, left: list[Left]) -> None:
    """Be done, or have another try, or tell the owners."""
    with lease.uow_factory.open(lease.caller) as uow:
        if any(each.transient for each in left) and lease.tries < MOST_TRIES:
            lease.release(uow, uow.now + _wait(lease.tries))
            return
        lease.release(uow, None)
        if not left:
            return
        lines = [_line(each) for each in left]
        uow.audit("organization.rules_left", ("organization", lease.organization_id, lease.name), left=lines)
        for owner in owners(uow):
            enqueue_mail(uow, owner, "rules_left", organization=lease.name, left=lines)


def _wait(tries: int) -> timedelta:
    longest: timedelta = min(FIRST_RETRY * 2 ** min(tries - 1, _MOST_DOUBLINGS), LONGEST_RETRY)
    return longest * (0.5 + random.random() / 2)  # noqa: S311 - jitter, no secret


def _line(left: Left) -> str:
    which = f"ruleset {left.ruleset_id}" if left.ruleset_id is not None else "a ruleset"
    return f"{left.place}: {which}, which requires the check {left.check_name} ({left.message})"
