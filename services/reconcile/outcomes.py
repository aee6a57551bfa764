"""Outcomes: release branches that are finished, deferred or failed, and record that on their freeze targets."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from integrations.github import ErrorKind, GitHubError
from services.core.work_queue import LEASE_DURATION
from services.github_access.backoff import NEEDS_OPERATOR, backoff
from services.github_access.failures import RATE_LIMITS
from services.reconcile.leases import BRANCHES, LeasedBranch, LeasedTransaction

# A branch that was made due since it was leased (a higher generation, or to be read back) is due at once, whatever the
# result of this pass; else at the time of the second reading after a lease that was taken over (`leases.py`).
_FINISH = text("""
    UPDATE watched_branches b
    SET written_generation = d.generation, lease_token = NULL, lease_holder = NULL, lease_until = NULL,
        attempts = 0, deferred_rank = NULL, last_error_code = NULL, last_error_message = NULL,
        outdated_since = CASE WHEN b.wanted_generation > d.generation THEN CAST(:now AS timestamptz) END,
        due_at = CASE WHEN b.wanted_generation > d.generation OR b.read_back THEN CAST(:now AS timestamptz)
                      ELSE b.reread_at END
    FROM unnest(CAST(:branches AS text[]), CAST(:generations AS bigint[])) AS d (branch, generation)
    WHERE b.id = d.branch AND b.lease_token = :token
""")
_WRITTEN_TARGETS = text("""
    UPDATE freeze_targets t
    SET state = CASE t.operation WHEN 'apply' THEN 'applied' ELSE 'released' END,
        applied_at = CASE t.operation WHEN 'apply' THEN coalesce(t.applied_at, :now) ELSE t.applied_at END,
        released_at = CASE t.operation WHEN 'release' THEN :now ELSE t.released_at END,
        heads_total = d.heads, heads_written = d.heads, attempts = t.attempts + 1,
        last_error_code = NULL, last_error_message = NULL, next_attempt_at = NULL
    FROM unnest(CAST(:branches AS text[]), CAST(:generations AS bigint[]), CAST(:heads AS int[]))
         AS d (branch, generation, heads)
    WHERE t.branch_id = d.branch AND t.generation <= d.generation AND t.state IN ('pending', 'releasing', 'failed')
    RETURNING t.freeze_id
""")
_UNENFORCED = text("""
    SELECT DISTINCT f.id FROM freeze_targets t JOIN freezes f ON f.id = t.freeze_id
    WHERE t.branch_id = ANY(:branches) AND t.operation = 'apply' AND f.ended_at IS NULL AND f.enforced_at IS NULL
""")


def finish_branches(leased: LeasedTransaction, finished: Sequence[tuple[LeasedBranch, int]]) -> set[str]:
    """Release branches whose heads (so many of each) all show their verdict, and mark their freeze targets written.

    Return the freezes that may now be complete. A branch that is not held any more stays due.
    """
    held = [(branch, heads) for branch, heads in finished if branch.id in leased.held]
    if not held:
        return set()
    uow = leased.uow
    columns: dict[str, list[Any]] = {
        "branches": [branch.id for branch, _heads in held],
        "generations": [branch.generation for branch, _heads in held],
    }
    uow.session.execute(_FINISH, {**columns, "token": leased.lease.token, "now": uow.now})
    uow.dependencies.queue_observer.released(BRANCHES.kind, len(held))
    counts = {"heads": [heads for _branch, heads in held], "now": uow.now}
    written = set(uow.session.scalars(_WRITTEN_TARGETS, {**columns, **counts}))
    return written.union(uow.session.scalars(_UNENFORCED, {"branches": columns["branches"]}))


_DEFER = text("""
    UPDATE watched_branches b
    SET lease_token = NULL, lease_holder = NULL, lease_until = NULL,
        due_at = :due, read_back = b.read_back OR d.read_back,
        deferred_rank = CASE WHEN b.wanted_generation > d.generation THEN b.deferred_rank ELSE d.rank END
    FROM unnest(CAST(:branches AS text[]), CAST(:ranks AS smallint[]), CAST(:generations AS bigint[]),
                CAST(:read_back AS boolean[])) AS d (branch, rank, generation, read_back)
    WHERE b.id = d.branch AND b.lease_token = :token
""")
_PROGRESS = text("""
    UPDATE freeze_targets t SET heads_total = d.total, heads_written = d.written
    FROM unnest(CAST(:branches AS text[]), CAST(:totals AS int[]), CAST(:written AS int[]))
         AS d (branch, total, written)
    WHERE t.branch_id = d.branch AND t.state IN ('pending', 'releasing', 'failed')
      AND (t.heads_total, t.heads_written) IS DISTINCT FROM (d.total, d.written)
""")


@dataclass(frozen=True, slots=True)
class Deferred:
    """A branch that a pass leaves to a later one: the rank of what is left, and how many heads are written."""

    branch: LeasedBranch
    rank: int | None
    total: int
    written: int


def defer_branches(leased: LeasedTransaction, deferred: Sequence[Deferred], due: datetime) -> None:
    """Release branches that have not failed: something more urgent, or another installation, goes first."""
    held = sorted((one for one in deferred if one.branch.id in leased.held), key=lambda one: one.branch.id)
    if not held:
        return
    branches = [one.branch.id for one in held]
    values = {
        "branches": branches,
        "ranks": [one.rank for one in held],
        "generations": [one.branch.generation for one in held],
        "read_back": [one.branch.read_back for one in held],
    }
    leased.uow.session.execute(_DEFER, {**values, "token": leased.lease.token, "due": due})
    leased.uow.dependencies.queue_observer.postponed(BRANCHES.kind, len(held))
    progress = {"totals": [one.total for one in held], "written": [one.written for one in held]}
    leased.uow.session.execute(_PROGRESS, {"branches": branches, **progress})


_FAIL = text("""
    UPDATE watched_branches b
    SET lease_token = NULL, lease_holder = NULL, lease_until = NULL,
        last_error_code = :code, last_error_message = :message,
        due_at = CASE WHEN b.wanted_generation > :generation OR b.read_back THEN CAST(:now AS timestamptz)
                      ELSE CAST(:due AS timestamptz) END,
        attempts = CASE WHEN b.wanted_generation > :generation OR b.read_back THEN b.attempts ELSE b.attempts + 1 END,
        read_back = b.read_back OR :read_back,
        reread_at = CASE WHEN :maybe_applied THEN coalesce(b.reread_at, :ended) ELSE b.reread_at END
    WHERE b.id = :branch AND b.lease_token = :token
    RETURNING b.due_at
""")
_FAILED_TARGETS = text("""
    UPDATE freeze_targets t
    SET state = CASE WHEN :waits THEN t.state ELSE 'failed' END, attempts = t.attempts + 1, last_error_code = :code,
        last_error_message = :message, next_attempt_at = :due, heads_total = :heads, heads_written = :written
    WHERE t.branch_id = :branch AND t.generation <= :generation AND t.state IN ('pending', 'releasing', 'failed')
""")


def fail_branch(leased: LeasedTransaction, branch: LeasedBranch, error: GitHubError, heads: tuple[int, int]) -> None:
    """Release a branch that could not be brought up to date, and schedule the next attempt.

    `heads` are how many it has, and how many show their verdict. A branch that only waits, for GitHub's rate limits or
    for an operator who confirms a restore, has not failed. One that was made due since it was leased is due at once.
    What only a person can fix is retried now and then, but its targets show no next attempt.
    """
    if branch.id not in leased.held:
        return
    uow, observer = leased.uow, leased.uow.dependencies.queue_observer
    waits = error.kind in RATE_LIMITS or error.kind is ErrorKind.WITHHELD
    values = {
        "branch": branch.id,
        "generation": branch.generation,
        "token": leased.lease.token,
        "now": uow.now,
        "code": error.code,
        "message": error.message[:500],
        "due": uow.now + backoff(error, branch.attempts),
        "read_back": error.maybe_applied or branch.read_back,
        "maybe_applied": error.maybe_applied,
        "ended": uow.now + LEASE_DURATION,
        "heads": heads[0],
        "written": heads[1],
        "waits": waits,
    }
    due = uow.session.scalar(_FAIL, values)
    shown = None if error.kind in NEEDS_OPERATOR and due is not None and due > uow.now else due
    uow.session.execute(_FAILED_TARGETS, {**values, "due": shown})
    if waits:
        observer.postponed(BRANCHES.kind, 1)
    else:
        observer.failed(BRANCHES.kind, error.code, 1)
