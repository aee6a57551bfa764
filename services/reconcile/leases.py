"""Leases: which branches a pass may work on, and the one way in which it opens a transaction under them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

from sqlalchemy import bindparam, case, false, func, or_, select, text

from models.installations import Installation
from models.queries import NOW
from models.repositories import Repository, WatchedBranch
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import LEASE_DURATION, Lease, LeaseLostError, WorkQueue
from services.github_access.pauses import is_callable

LONG_TRANSACTION = 1.0
"""Seconds after which a transaction counts as long: evaluating many thousand heads takes some."""
MAX_BRANCHES_PER_PASS = 200
"""A pass serves one installation; with this limit the others are served in between (I12)."""


@dataclass(frozen=True, slots=True)
class LeasedBranch:
    """A leased branch, with the generation that this pass will have written when it is done."""

    id: str
    organization_id: str
    repository_id: str
    repository_node_id: str
    name: str
    check_name: str
    pattern_check_name: str | None
    generation: int
    read_back: bool
    attempts: int

    @property
    def check_names(self) -> tuple[str, ...]:
        """The names of the checks that its heads have: its own, and that of its pattern."""
        return (self.check_name,) if self.pattern_check_name is None else (self.check_name, self.pattern_check_name)


@dataclass(frozen=True, slots=True)
class LeasedBatch:
    """Leased branches of one installation."""

    installation_id: int
    lease: Lease | None
    """None if other transactions had locked every due branch at that moment."""
    branches: tuple[LeasedBranch, ...]
    best_rank_left: int | None = None
    """The rank of the most mergeable due branch with a new generation that was not leased; None if there is none."""
    permissions: Mapping[str, str] = field(default_factory=dict)
    """The App's permissions in the installation, as last read: a token that was issued earlier may have fewer."""


# A lease whose token is still there when the branch is acquired has ended: its worker may still be about to write.
# The worker that takes the branch over reads back, and the branch is read back once more when every call of the former
# worker must have ended, whether this lease ends in success, in failure or by deferral: `reread_at` stays until a
# lease is acquired at that time. Acquiring clears `read_back`: one that is set from now on is a new request, which the
# release of this lease leaves alone.
_taken_over = WatchedBranch.lease_token.is_not(None)
BRANCHES = WorkQueue(
    "reconcile",
    WatchedBranch,
    select(
        WatchedBranch.id,
        WatchedBranch.organization_id,
        WatchedBranch.repository_id,
        Repository.node_id,
        WatchedBranch.name,
        WatchedBranch.check_name,
        WatchedBranch.pattern_check_name,
        WatchedBranch.wanted_generation,
        or_(WatchedBranch.read_back, _taken_over, WatchedBranch.reread_at.is_not(None)).label("read_back"),
        WatchedBranch.attempts,
    )
    .join(Repository, Repository.id == WatchedBranch.repository_id)
    .join(Installation, Installation.id == Repository.installation_id)
    .where(is_callable())
    .order_by(
        WatchedBranch.wanted_generation == WatchedBranch.written_generation,
        func.coalesce(WatchedBranch.deferred_rank, WatchedBranch.merge_rank),
        WatchedBranch.due_at,
    ),
    on_acquire={
        "due_at": WatchedBranch.due_at,  # generations show what is requested during the lease
        "read_back": false(),
        "reread_at": case(
            (_taken_over, NOW + LEASE_DURATION), (WatchedBranch.reread_at > NOW, WatchedBranch.reread_at)
        ),
    },
)
"""Branches whose heads may show another verdict than the database says."""

_available = (
    select(WatchedBranch.id).join(Repository, Repository.id == WatchedBranch.repository_id).where(BRANCHES.available)
)
_NEXT_INSTALLATION = (
    select(Installation.id, Installation.permissions)
    .where(is_callable(), _available.where(Repository.installation_id == Installation.id).exists())
    .order_by(Installation.served_at.nulls_first(), Installation.id)
    .limit(1)
    .with_for_update(skip_locked=True)
)
_SERVED = text("UPDATE installations SET served_at = :now WHERE id = :installation")
_BEST_RANK_LEFT = (
    select(func.min(func.coalesce(WatchedBranch.deferred_rank, WatchedBranch.merge_rank)))
    .join(Repository, Repository.id == WatchedBranch.repository_id)
    .where(
        Repository.installation_id == bindparam("installation"),
        WatchedBranch.wanted_generation != WatchedBranch.written_generation,
        BRANCHES.available,
    )
)
_OTHER_INSTALLATIONS_DUE = select(
    _available.join(Installation, Installation.id == Repository.installation_id)
    .where(Installation.id != bindparam("installation"), is_callable())
    .exists()
)


def acquire(uow: UnitOfWork, *, limit: int = MAX_BRANCHES_PER_PASS) -> LeasedBatch | None:
    """Lease due branches of the installation that was served longest ago; None if no branch is due."""
    next_one = uow.session.execute(_NEXT_INSTALLATION, {"now": uow.now}).first()
    if next_one is None:
        return None
    installation_id, permissions = next_one
    uow.session.execute(_SERVED, {"installation": installation_id, "now": uow.now})
    lease = BRANCHES.acquire(uow, within=(Repository.installation_id, installation_id), limit=limit)
    branches = () if lease is None else tuple(LeasedBranch(*tuple(row)[:-1]) for row in lease.rows)
    best_rank_left = None
    if len(branches) == limit:
        best_rank_left = uow.session.scalar(_BEST_RANK_LEFT, {"installation": installation_id, "now": uow.now})
    return LeasedBatch(installation_id, lease, branches, best_rank_left, permissions)


def other_installations_due(uow: UnitOfWork, installation_id: int) -> bool:
    """True if branches of another installation are due and not leased (I12)."""
    return bool(uow.session.scalar(_OTHER_INSTALLATIONS_DUE, {"installation": installation_id, "now": uow.now}))


@dataclass(frozen=True, slots=True)
class LeasedTransaction:
    """A transaction of a pass. The rows of the branches that it holds are locked until the commit."""

    uow: UnitOfWork
    lease: Lease
    held: frozenset[str]
    """The ids of the branches whose leases hold: only these may be evaluated and recorded."""


@contextmanager
def leased_transaction(
    uow_factory: UnitOfWorkFactory,
    lease: Lease,
    branch_ids: Collection[str],
    *,
    before_locking: Callable[[UnitOfWork], object] | None = None,
) -> Iterator[LeasedTransaction]:
    """Open a transaction under leases: lock these branches in the order of ids, renew the leases that still hold.

    What the transaction leaves leased is renewed once more at its end if it took long: a call may follow.
    `before_locking` runs first in the transaction, for a lock that has to be taken before those of branches. Raise
    LeaseLostError if no lease holds; what `before_locking` has written is then rolled back.
    """
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if before_locking is not None:
            before_locking(uow)
        held = frozenset(lease.renew(uow, branch_ids))
        if not held:
            raise LeaseLostError
        began = monotonic()
        yield LeasedTransaction(uow, lease, held)
        if monotonic() - began > LONG_TRANSACTION:
            lease.prolong(uow, held)
