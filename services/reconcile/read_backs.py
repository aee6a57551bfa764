"""Read-backs: requests to read the checks that GitHub shows, instead of trusting what is recorded.

`read_back` has the next pass read a branch back; `reread_at` has it read back once more at that time, when every call
that was under way must have ended.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import text

from services.core.row_locks import lock_branches
from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import LEASE_DURATION
from services.reconcile.heads import Head
from services.reconcile.leases import LeasedTransaction
from services.reconcile.write_intents import mark_unconfirmed

_READ_BACK = text(
    "UPDATE watched_branches SET read_back = true, wanted_generation = wanted_generation + 1, due_at = :now "
    "WHERE id = ANY(:ids)"
)
_READ_BACK_ALL = text("""
    WITH every AS (
        SELECT b.id FROM watched_branches b JOIN repositories r ON r.id = b.repository_id
        JOIN installations i ON i.id = r.installation_id
        WHERE r.removed_at IS NULL AND i.state = 'active' ORDER BY b.id FOR NO KEY UPDATE OF b
    )
    UPDATE watched_branches b
    SET read_back = true, due_at = CASE WHEN :at_once THEN :now ELSE coalesce(b.due_at, :now) END
    FROM every WHERE b.id = every.id
""")
_REREAD = text("UPDATE watched_branches SET reread_at = coalesce(reread_at, :at) WHERE id = ANY(:ids)")


def read_back_all(uow: UnitOfWork, *, at_once: bool = False) -> None:
    """Have the checks of all branches read back; `at_once`: also of those that wait for their next attempt."""
    uow.session.execute(_READ_BACK_ALL, {"now": uow.now, "at_once": at_once})
    uow.wake("reconcile")


def read_back_late_writes(uow: UnitOfWork, heads: Sequence[Head]) -> None:
    """Have heads read back at once that were written, or may have been, after their lease was lost.

    Such a write is not recorded (I2). The heads become unconfirmed, because the new lease holder may have recorded
    something else meanwhile.
    """
    if heads:
        lock_branches(uow, {head.branch_id for head in heads})
        read_back_heads(uow, heads)


def read_back_heads(uow: UnitOfWork, heads: Sequence[Head]) -> None:
    """Make the locked branches of these heads due, to be read back; the heads are unconfirmed until then."""
    if heads:
        uow.session.execute(_READ_BACK, {"ids": sorted({head.branch_id for head in heads}), "now": uow.now})
        mark_unconfirmed(uow, heads)
        uow.wake("reconcile")


def schedule_reread(leased: LeasedTransaction, branch_ids: Collection[str]) -> None:
    """Have held branches read back once more after this pass, when every call that is under way must have ended."""
    if branch_ids:
        leased.uow.session.execute(_REREAD, {"at": leased.uow.now + LEASE_DURATION, "ids": list(branch_ids)})
