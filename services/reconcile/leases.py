"""Leases: which checks a pass may work on, and the one way in which it opens a transaction under them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

from sqlalchemy import BigInteger, ColumnElement, Row, bindparam, func, or_, select, text, true

from models.checks import Check, ReadBack
from models.installations import Installation
from models.repositories import Repository
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import LEASE_DURATION, Lease, LeaseLostError, WorkQueue
from services.github_access.pauses import is_callable

LONG_TRANSACTION = 1.0
"""Seconds after which a transaction counts as long: evaluating many thousand heads takes some."""
MAX_CHECKS_PER_PASS = 200
"""A pass serves one installation; with this limit the others are served in between (I12)."""


@dataclass(frozen=True, slots=True)
class LeasedCheck:
    """A leased check, with the generation that this pass will have written when it is done."""

    id: int
    organization_id: str
    repository_id: str
    repository_node_id: str
    name: str
    branch_id: str | None
    """The branch whose own check it is; None: that of a pattern."""
    generation: int
    attempts: int
    read_back: bool


@dataclass(frozen=True, slots=True)
class BranchToRead:
    """A branch whose heads a pass reads: of a leased check of its own, or of that of its pattern if it is read back."""

    id: str
    organization_id: str
    repository_id: str
    repository_node_id: str
    name: str
    own_check: int | None
    """Its own check, if that is leased: only then what was read is mirrored."""
    pattern_check: int | None
    """The check of its pattern, if that is leased and read back."""
    read_back: bool

    @property
    def checks(self) -> tuple[int, ...]:
        """The leased checks on whose account it is read."""
        return tuple(check for check in (self.own_check, self.pattern_check) if check is not None)


@dataclass(frozen=True, slots=True)
class LeasedBatch:
    """Leased checks of one installation, and the branches to read for them."""

    installation_id: int
    lease: Lease | None
    """None if other transactions had locked every due check at that moment."""
    checks: tuple[LeasedCheck, ...]
    branches: tuple[BranchToRead, ...] = ()
    best_rank_left: int | None = None
    """The rank of the most mergeable due check with a new generation that was not leased; None if there is none."""
    permissions: Mapping[str, str] = field(default_factory=dict)
    """The App's permissions in the installation, as last read: a token that was issued earlier may have fewer."""


_is_read_back = select(ReadBack.check_id).where(ReadBack.check_id == Check.id).exists()  # also before a later request
CHECKS = WorkQueue(
    "reconcile",
    Check,
    select(
        Check.id,
        Check.organization_id,
        Check.repository_id,
        Repository.node_id,
        Check.name,
        Check.branch_id,
        Check.wanted_generation,
        Check.attempts,
        or_(_is_read_back, Check.lease_token.is_not(None)).label("read_back"),
    )
    .join(Repository, Repository.id == Check.repository_id)
    .join(Installation, Installation.id == Check.installation_id)
    .where(is_callable())
    .order_by(
        Check.wanted_generation == Check.written_generation,
        func.coalesce(Check.deferred_rank, Check.merge_rank),
        Check.due_at,
    ),
    on_acquire={"due_at": Check.due_at},  # generations show what is requested during the lease
)
"""Checks that may say something else than the database on some head."""


def _next_with_work(after: ColumnElement[int]) -> ColumnElement[int]:
    """Return the next installation, by its id, that has work planned; after the last the first. One look or two."""
    planned = select(Check.installation_id).where(Check.due_at.is_not(None))
    first = planned.order_by(Check.installation_id).limit(1)
    return func.coalesce(first.where(Check.installation_id > after).scalar_subquery(), first.scalar_subquery())


_first = select(_next_with_work(bindparam("after", type_=BigInteger)).label("id")).cte("turn", recursive=True)
_TURN = _first.union(select(_next_with_work(_first.c.id)).select_from(_first))
"""The installations that have work planned, from the next one on. It ends where it has come round: no row twice."""
_DUE = select(Installation.id, Installation.permissions).where(
    Installation.id == _TURN.c.id,
    is_callable(),
    select(Check.id).where(Check.installation_id == Installation.id, CHECKS.available).exists(),
)
"""That installation of `_TURN`, if checks of it are due."""
_LOCKED = _DUE.with_for_update(of=Installation, skip_locked=True).lateral("next")
# Locked for each installation of `_TURN` by itself, so that they come in the order of their ids whatever the plan is,
# and are read one by one, until one is found. To sort them would be to read all.
_NEXT_INSTALLATION = select(_LOCKED.c.id, _LOCKED.c.permissions).select_from(_TURN.join(_LOCKED, true())).limit(1)
_OTHER_INSTALLATIONS_DUE = select(_DUE.where(_TURN.c.id != bindparam("installation")).correlate(None).exists())
_BEST_RANK_LEFT = select(func.min(func.coalesce(Check.deferred_rank, Check.merge_rank))).where(
    Check.installation_id == bindparam("installation"),
    Check.wanted_generation != Check.written_generation,
    CHECKS.available,
)
# A lease whose token is still there when the check is acquired has ended: its worker may still be about to write. So
# the check is read back now, and once more when every call of that worker must have ended.
_TAKE_OVER = text("""
    WITH taken AS (SELECT * FROM checks WHERE id = ANY(:checks)), again AS (
        INSERT INTO read_backs (check_id, at, organization_id) SELECT id, :ended, organization_id FROM taken
        ON CONFLICT DO NOTHING
    )
    UPDATE head_checks h SET in_flight_until = greatest(h.in_flight_until, :ended)
    FROM taken WHERE h.repository_id = taken.repository_id AND h.check_name = taken.name AND h.unconfirmed
""")
_READ_BACKS_TAKEN = text("DELETE FROM read_backs WHERE check_id = ANY(:checks) AND at <= :now")
_TO_READ = text("""
    SELECT b.id, b.organization_id, b.repository_id, r.node_id, b.name,
           max(k.id) FILTER (WHERE c.branch_id IS NOT NULL), max(k.id) FILTER (WHERE c.branch_id IS NULL),
           bool_or(k.read_back)
    FROM unnest(CAST(:checks AS bigint[]), CAST(:read_back AS boolean[])) AS k (id, read_back)
    JOIN checks c ON c.id = k.id
    JOIN watched_branches b ON b.repository_id = c.repository_id
         AND (b.id = c.branch_id OR c.branch_id IS NULL AND k.read_back AND b.pattern_check_name = c.name)
    JOIN repositories r ON r.id = b.repository_id
    GROUP BY b.id, r.node_id
    ORDER BY min(array_position(CAST(:checks AS bigint[]), k.id))
""")


@dataclass(slots=True)
class Turn:
    """Whose turn it is: a worker serves the installations that have work one after the other, in the order of ids."""

    after: int = 0
    """The installation that was served last."""

    def next(self, uow: UnitOfWork) -> Row[int, dict[str, str]] | None:
        """Lock and return the next installation that has due checks, and the App's permissions there."""
        found = uow.session.execute(_NEXT_INSTALLATION, {"after": self.after, "now": uow.now}).first()
        if found is not None:
            self.after = found.id
        return found


def acquire(uow: UnitOfWork, turn: Turn, *, limit: int = MAX_CHECKS_PER_PASS) -> LeasedBatch | None:
    """Lease due checks of the installation whose turn it is; None if no check is due."""
    next_one = turn.next(uow)
    if next_one is None:
        return None
    installation_id, permissions = next_one
    lease = CHECKS.acquire(uow, within=(Check.installation_id, installation_id), limit=limit)
    if lease is None:
        return LeasedBatch(installation_id, None, ())
    checks = tuple(LeasedCheck(*tuple(row)[:-1]) for row in lease.rows)
    _take_read_backs(uow, lease, checks)
    best_rank_left = None
    if len(checks) == limit:
        best_rank_left = uow.session.scalar(_BEST_RANK_LEFT, {"installation": installation_id, "now": uow.now})
    values = {"checks": [check.id for check in checks], "read_back": [check.read_back for check in checks]}
    to_read = tuple(BranchToRead(*row) for row in uow.session.execute(_TO_READ, values))
    return LeasedBatch(installation_id, lease, checks, to_read, best_rank_left, permissions)


def _take_read_backs(uow: UnitOfWork, lease: Lease, checks: Collection[LeasedCheck]) -> None:
    """Remove the requests to read back that this pass meets, and request the second reading after a takeover."""
    if read_back := [check.id for check in checks if check.read_back]:
        uow.session.execute(_READ_BACKS_TAKEN, {"checks": read_back, "now": uow.now})
    if taken_over := [row.id for row in lease.rows if row.taken_over]:
        uow.session.execute(_TAKE_OVER, {"checks": taken_over, "ended": uow.now + LEASE_DURATION})


def other_installations_due(uow: UnitOfWork, installation_id: int) -> bool:
    """True if checks of another installation are due and not leased (I12)."""
    values = {"installation": installation_id, "after": 0, "now": uow.now}
    return bool(uow.session.scalar(_OTHER_INSTALLATIONS_DUE, values))


@dataclass(frozen=True, slots=True)
class LeasedTransaction:
    """A transaction of a pass. The rows of the checks that it holds are locked until the commit."""

    uow: UnitOfWork
    lease: Lease
    held: frozenset[int]
    """The ids of the checks whose leases hold: only these may be evaluated and recorded."""


@contextmanager
def leased_transaction(
    uow_factory: UnitOfWorkFactory,
    lease: Lease,
    check_ids: Collection[int],
    *,
    before_locking: Callable[[UnitOfWork], object] | None = None,
) -> Iterator[LeasedTransaction]:
    """Open a transaction under leases: lock these checks in the order of ids, renew the leases that still hold.

    What the transaction leaves leased is renewed once more at its end if it took long: a call may follow.
    `before_locking` runs first in the transaction, for a lock that has to be taken before those of checks. Raise
    LeaseLostError if no lease holds; what `before_locking` has written is then rolled back.
    """
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if before_locking is not None:
            before_locking(uow)
        held = frozenset(lease.renew(uow, check_ids))
        if not held:
            raise LeaseLostError
        began = monotonic()
        yield LeasedTransaction(uow, lease, held)
        if monotonic() - began > LONG_TRANSACTION:
            lease.prolong(uow, held)
