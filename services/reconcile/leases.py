"""Leases: which branches a pass may work on, and the one way in which it opens a transaction under them."""

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import text

from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory

LEASE_DURATION = timedelta(seconds=40)
"""Longer than one call to GitHub may take (20 s); renewed before each one."""
MAX_BRANCHES_PER_PASS = 200
"""A pass serves one installation; with this limit the others are served in between (I12)."""


class LeaseLostError(Exception):
    """None of the leases that a transaction needs is held any more."""


@dataclass(frozen=True, slots=True)
class LeasedBranch:
    """A leased branch, with the generation that this pass will have written when it is done."""

    id: str
    organization_id: str
    repository_id: str
    repository_node_id: str
    name: str
    check_name: str
    generation: int
    read_back: bool
    attempts: int


@dataclass(frozen=True, slots=True)
class LeasedBatch:
    """Leased branches of one installation."""

    installation_id: int
    token: str
    branches: tuple[LeasedBranch, ...]
    best_rank_left: int | None = None
    """The rank of the most mergeable due branch that was not leased; None if all were."""
    permissions: Mapping[str, str] = field(default_factory=dict)
    """The App's permissions in the installation, as last read: a token that was issued earlier may have fewer."""


_NEXT_INSTALLATION = text("""
    SELECT i.id, i.permissions FROM installations i
    WHERE i.state = 'active' AND (i.paused_until IS NULL OR i.paused_until <= :now)
      AND EXISTS (
        SELECT FROM watched_branches b JOIN repositories r ON r.id = b.repository_id
        WHERE r.installation_id = i.id AND b.due_at <= :now AND (b.lease_until IS NULL OR b.lease_until <= :now)
      )
    ORDER BY i.served_at NULLS FIRST, i.id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
""")

# A lease whose token is still there when the branch is acquired has run out: its worker may still be about to write.
# The worker that takes the branch over reads back, and the branch is read back once more when every call of the former
# worker must have ended, whether this lease ends in success, in failure or by deferral: `reread_at` stays until a
# lease is acquired at that time. Acquiring clears `read_back`: one that is set from now on is a new request, which the
# release of this lease leaves alone.
_LEASE_BRANCHES = text("""
    WITH due AS (
        SELECT b.id, r.node_id, b.lease_token IS NOT NULL AS taken_over,
               b.read_back OR b.lease_token IS NOT NULL OR coalesce(b.reread_at <= :now, false) AS read_back
        FROM watched_branches b JOIN repositories r ON r.id = b.repository_id
        WHERE r.installation_id = :installation AND b.due_at <= :now
          AND (b.lease_until IS NULL OR b.lease_until <= :now)
        ORDER BY (b.wanted_generation = b.written_generation), coalesce(b.deferred_rank, b.merge_rank), b.due_at
        LIMIT :limit
        FOR UPDATE OF b SKIP LOCKED
    )
    UPDATE watched_branches b
    SET read_back = false, lease_token = :token, lease_until = :until,
        reread_at = CASE WHEN due.taken_over THEN CAST(:reread_at AS timestamptz)
                             WHEN b.reread_at > :now THEN b.reread_at END
    FROM due WHERE b.id = due.id
    RETURNING b.id, b.organization_id, b.repository_id, due.node_id, b.name, b.check_name, b.wanted_generation,
              due.read_back, b.attempts
""")


_BEST_RANK_LEFT = text("""
    SELECT min(coalesce(b.deferred_rank, b.merge_rank))
    FROM watched_branches b JOIN repositories r ON r.id = b.repository_id
    WHERE r.installation_id = :installation AND b.due_at <= :now AND b.wanted_generation <> b.written_generation
      AND (b.lease_until IS NULL OR b.lease_until <= :now)
""")
_OTHER_INSTALLATIONS_DUE = text("""
    SELECT EXISTS (
        SELECT FROM installations i
        JOIN repositories r ON r.installation_id = i.id
        JOIN watched_branches b ON b.repository_id = r.id
        WHERE i.id <> :installation AND i.state = 'active' AND (i.paused_until IS NULL OR i.paused_until <= :now)
          AND b.due_at <= :now AND (b.lease_until IS NULL OR b.lease_until <= :now)
    )
""")
_RENEW = text("""
    WITH mine AS (
        SELECT id FROM watched_branches
        WHERE id = ANY(:ids) AND lease_token = :token AND lease_until > :now ORDER BY id FOR NO KEY UPDATE
    )
    UPDATE watched_branches b SET lease_until = :until FROM mine WHERE b.id = mine.id RETURNING b.id
""")


def acquire(uow: UnitOfWork, *, limit: int = MAX_BRANCHES_PER_PASS) -> LeasedBatch | None:
    """Lease due branches of the installation that was served longest ago; None when nothing is due."""
    next_one = uow.session.execute(_NEXT_INSTALLATION, {"now": uow.now}).first()
    if next_one is None:
        return None
    installation_id, permissions = next_one
    uow.session.execute(
        text("UPDATE installations SET served_at = :now WHERE id = :id"), {"now": uow.now, "id": installation_id}
    )
    token = secrets.token_hex(8)
    rows = uow.session.execute(
        _LEASE_BRANCHES,
        {
            "installation": installation_id,
            "now": uow.now,
            "until": uow.now + LEASE_DURATION,
            "reread_at": uow.now + LEASE_DURATION,
            "token": token,
            "limit": limit,
        },
    )
    branches = tuple(LeasedBranch(*row) for row in rows)
    best_rank_left = None
    if len(branches) == limit:
        best_rank_left = uow.session.scalar(_BEST_RANK_LEFT, {"installation": installation_id, "now": uow.now})
    return LeasedBatch(installation_id, token, branches, best_rank_left, permissions)


def other_installations_due(uow: UnitOfWork, installation_id: int) -> bool:
    """True if branches of another installation are due and not leased (I12)."""
    return bool(uow.session.scalar(_OTHER_INSTALLATIONS_DUE, {"installation": installation_id, "now": uow.now}))


@dataclass(frozen=True, slots=True)
class LeasedTransaction:
    """A transaction of a pass. The rows of the branches that it holds are locked until the commit."""

    uow: UnitOfWork
    token: str
    held: frozenset[str]
    """The ids of the branches whose leases hold: only these may be evaluated and recorded."""


@contextmanager
def leased_transaction(
    uow_factory: UnitOfWorkFactory,
    token: str,
    branch_ids: Collection[str],
    *,
    before_locking: Callable[[UnitOfWork], object] | None = None,
) -> Iterator[LeasedTransaction]:
    """Open a transaction under leases: lock these branches in the order of ids, renew the leases that still hold.

    `before_locking` runs first in the transaction, for a lock that has to be taken before those of branches. Raise
    `LeaseLostError` if no lease holds; what `before_locking` has written is then rolled back.
    """
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if before_locking is not None:
            before_locking(uow)
        values = {"until": uow.now + LEASE_DURATION, "ids": list(branch_ids), "token": token, "now": uow.now}
        held = frozenset(uow.session.scalars(_RENEW, values))
        if not held:
            raise LeaseLostError
        yield LeasedTransaction(uow, token, held)


def schedule_reread(leased: LeasedTransaction, branch_ids: Collection[str]) -> None:
    """Have held branches read back after this pass as well, as late as after a lease that ran out."""
    leased.uow.session.execute(
        text("UPDATE watched_branches SET reread_at = coalesce(reread_at, :at) WHERE id = ANY(:ids)"),
        {"at": leased.uow.now + LEASE_DURATION, "ids": list(branch_ids)},
    )
