"""Outcomes: release checks that are finished, deferred or failed, and record that on the freeze targets of branches.

A target waits for the check of its branch, and for that of its pattern: it is written when both have reached its
generation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

from sqlalchemy import text

from integrations.github import ErrorKind, GitHubError
from services.core.queue_observer import QueueObserver
from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import LEASE_DURATION
from services.github_access.backoff import NEEDS_OPERATOR, backoff
from services.github_access.failures import RATE_LIMITS
from services.reconcile.leases import CHECKS, LeasedCheck, LeasedTransaction
from services.reconcile.read_backs import request_read_backs

# A check that was made due since it was leased (a higher generation, or to be read back) is due at once, whatever the
# result of this pass; else at the time of the next request to read it back.
_NEXT_READ_BACK: LiteralString = "(SELECT min(r.at) FROM read_backs r WHERE r.check_id = c.id)"
_REQUESTED: LiteralString = f"(c.wanted_generation > d.generation OR {_NEXT_READ_BACK} <= CAST(:now AS timestamptz))"
_RELEASED: LiteralString = """
    lease_token = NULL, lease_holder = NULL, lease_until = NULL, merge_rank = coalesce(d.best_rank, c.merge_rank)
"""
_DONE: LiteralString = """
    unnest(CAST(:checks AS bigint[]), CAST(:generations AS bigint[]), CAST(:best_ranks AS smallint[]),
           CAST(:ranks_left AS smallint[])) AS d (id, generation, best_rank, rank_left)
    WHERE c.id = d.id AND c.lease_token = :token
"""
_FINISH = text(f"""
    WITH finished AS (
        UPDATE checks c
        SET {_RELEASED}, written_generation = d.generation, attempts = 0, deferred_rank = NULL,
            last_error_code = NULL, last_error_message = NULL,
            outdated_since = CASE WHEN c.wanted_generation > d.generation THEN CAST(:now AS timestamptz) END,
            due_at = CASE WHEN {_REQUESTED} THEN CAST(:now AS timestamptz) ELSE {_NEXT_READ_BACK} END
        FROM {_DONE} RETURNING c.branch_id
    )
    SELECT DISTINCT f.id FROM finished
    JOIN freeze_targets t ON t.branch_id = finished.branch_id
    JOIN freezes f ON f.id = t.freeze_id
    WHERE t.operation = 'apply' AND f.ended_at IS NULL AND f.enforced_at IS NULL
""")  # noqa: S608 - constants of ours
# In a statement of its own: the next one then sees what another pass has committed that had locked a target. Here and
# below, no join of all targets: where the planner takes the tables for empty, that costs the cube of their number.
_SAVE_PROGRESS = text("""
    WITH locked AS MATERIALIZED (
        SELECT id, branch_id FROM freeze_targets WHERE id = ANY(ARRAY(
            SELECT t.id FROM checks f
            JOIN watched_branches b
                 ON b.repository_id = f.repository_id
                 AND (b.id = f.branch_id OR f.branch_id IS NULL AND b.pattern_check_name = f.name)
            JOIN freeze_targets t ON t.branch_id = b.id
            WHERE f.id = ANY(:checks) AND t.state IN ('pending', 'releasing', 'failed')
        )) ORDER BY id FOR NO KEY UPDATE
    ), progress AS (
        UPDATE freeze_targets t SET heads_total = d.total, heads_written = d.written
        FROM unnest(CAST(:checks AS bigint[]), CAST(:totals AS int[]), CAST(:written AS int[]))
             AS d (id, total, written)
        JOIN checks c ON c.id = d.id JOIN locked ON locked.branch_id = c.branch_id
        WHERE t.id = locked.id AND (t.heads_total, t.heads_written) IS DISTINCT FROM (d.total, d.written)
    )
    SELECT id FROM locked
""")
_WRITTEN_TARGETS = text("""
    UPDATE freeze_targets t
    SET state = CASE t.operation WHEN 'apply' THEN 'applied' ELSE 'released' END,
        applied_at = CASE t.operation WHEN 'apply' THEN coalesce(t.applied_at, :now) ELSE t.applied_at END,
        released_at = CASE t.operation WHEN 'release' THEN :now ELSE t.released_at END,
        heads_written = t.heads_total, attempts = t.attempts + 1,
        last_error_code = NULL, last_error_message = NULL, next_attempt_at = NULL
    WHERE t.id = ANY(:targets) AND t.generation <= ALL (
        SELECT c.written_generation FROM watched_branches b
        JOIN checks c ON c.repository_id = b.repository_id AND c.name IN (b.check_name, b.pattern_check_name)
        WHERE b.id = t.branch_id)
    RETURNING t.freeze_id
""")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pass has come with a check: how many heads it has, and how many of them show their verdict."""

    check: LeasedCheck
    total: int
    written: int
    best_rank: int | None = None
    """The rank of its most mergeable head; None if that is not known."""
    rank_left: int | None = None
    """The rank of the most mergeable head that is left; None if that is not known."""


def _released(leased: LeasedTransaction, released: Sequence[Progress]) -> dict[str, Any]:
    """Return what the statements that release checks take."""
    return {
        "checks": [one.check.id for one in released],
        "generations": [one.check.generation for one in released],
        "best_ranks": [one.best_rank for one in released],
        "ranks_left": [one.rank_left for one in released],
        "token": leased.lease.token,
        "now": leased.uow.now,
    }


def finish_checks(leased: LeasedTransaction, finished: Sequence[Progress]) -> set[str]:
    """Release checks that show their verdict on every head, and mark the freeze targets that waited for them written.

    Return the freezes that may now be complete. A check that is not held any more stays due.
    """
    held = [one for one in finished if one.check.id in leased.held]
    if not held:
        return set()
    uow = leased.uow
    freezes = set(uow.session.scalars(_FINISH, _released(leased, held)))
    uow.ports[QueueObserver].released(CHECKS.kind, len(held))
    if targets := _save_progress(uow, held):
        freezes.update(uow.session.scalars(_WRITTEN_TARGETS, {"targets": targets, "now": uow.now}))
    return freezes


def _save_progress(uow: UnitOfWork, held: Sequence[Progress]) -> list[str]:
    """Lock the unfinished targets that wait for these checks, and return their ids.

    Save how many heads of their branches are written: the branches' own checks say it.
    """
    values = {
        "checks": [one.check.id for one in held],
        "totals": [one.total for one in held],
        "written": [one.written for one in held],
    }
    return list(uow.session.scalars(_SAVE_PROGRESS, values))


_DEFER = text(f"""
    UPDATE checks c
    SET {_RELEASED}, due_at = :due,
        deferred_rank = CASE WHEN c.wanted_generation > d.generation THEN c.deferred_rank ELSE d.rank_left END
    FROM {_DONE}
""")  # noqa: S608 - constants of ours


def defer_checks(leased: LeasedTransaction, deferred: Sequence[Progress], due: datetime) -> None:
    """Release checks that have not failed: something more urgent, or another installation, goes first."""
    held = [one for one in deferred if one.check.id in leased.held]
    if not held:
        return
    uow = leased.uow
    request_read_backs(uow, [one.check.id for one in held if one.check.read_back], uow.now)
    uow.session.execute(_DEFER, {**_released(leased, held), "due": due})
    uow.ports[QueueObserver].postponed(CHECKS.kind, len(held))
    _save_progress(uow, held)


_FAIL = text(f"""
    UPDATE checks c
    SET {_RELEASED}, last_error_code = :code, last_error_message = :message,
        due_at = CASE WHEN {_REQUESTED} THEN CAST(:now AS timestamptz) ELSE CAST(:due AS timestamptz) END,
        attempts = CASE WHEN {_REQUESTED} THEN c.attempts ELSE c.attempts + 1 END
    FROM {_DONE} RETURNING c.due_at
""")  # noqa: S608 - constants of ours
_FAILED_TARGETS = text("""
    UPDATE freeze_targets t
    SET state = CASE WHEN :waits THEN t.state ELSE 'failed' END, attempts = t.attempts + 1, last_error_code = :code,
        last_error_message = :message, next_attempt_at = :due
    WHERE t.id = ANY(:targets) AND t.generation <= :generation
    RETURNING t.branch_id
""")


def fail_check(leased: LeasedTransaction, progress: Progress, error: GitHubError) -> set[str]:
    """Release a check that could not be brought up to date, and schedule the next attempt.

    Return the branches of which freeze targets wait for it.

    A check that only waits, for GitHub's rate limits or for an operator who confirms a restore, has not failed. One
    that was made due since it was leased is due at once. What only a person can fix is retried now and then, but its
    targets show no next attempt. After a call whose answer was lost it is read back, and once more when that call has
    arrived.
    """
    check = progress.check
    if check.id not in leased.held:
        return set()
    uow, observer = leased.uow, leased.uow.ports[QueueObserver]
    waits = error.kind in RATE_LIMITS or error.kind is ErrorKind.WITHHELD
    values: dict[str, Any] = {
        "code": error.code,
        "message": error.message[:500],
        "due": uow.now + backoff(error, check.attempts),
    }
    due = uow.session.scalar(_FAIL, {**_released(leased, [progress]), **values})
    if error.maybe_applied:
        request_read_backs(uow, [check.id], uow.now, uow.now + LEASE_DURATION)
    elif check.read_back:
        request_read_backs(uow, [check.id], uow.now)
    branch_ids: set[str] = set()
    if targets := _save_progress(uow, [progress]):
        shown = None if error.kind in NEEDS_OPERATOR and due is not None and due > uow.now else due
        failed = {**values, "due": shown, "waits": waits, "targets": targets, "generation": check.generation}
        branch_ids.update(uow.session.scalars(_FAILED_TARGETS, failed))
    if waits:
        observer.postponed(CHECKS.kind, 1)
    else:
        observer.failed(CHECKS.kind, error.code, 1)
    return branch_ids
