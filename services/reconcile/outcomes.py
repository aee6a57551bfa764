"""Outcomes: record what was written, and release the leases of branches that are finished, deferred or failed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from integrations.github import ErrorKind, GitHubError
from services.core.row_locks import lock_branches
from services.core.unit_of_work import UnitOfWork
from services.core.work_queue import LEASE_DURATION
from services.github_access.backoff import NEEDS_OPERATOR, backoff
from services.reconcile.evaluation import CheckUpdate
from services.reconcile.heads import Head, HeadKey
from services.reconcile.leases import BRANCHES, LeasedBranch, LeasedTransaction
from services.reconcile.tracked_heads import add_sibling_paths
from services.reconcile.write_intents import (
    MAY_ARRIVE,
    end_write_intents,
    key_columns,
    lease_columns,
    mark_unconfirmed,
)

_RECORD = text(f"""
    INSERT INTO head_checks AS h (repository_id, check_name, head_sha, organization_id, branch_id, conclusion,
                                  evaluation, check_run_id, summary_hash, tracked, written_at)
    VALUES (:repository, :name, :sha, :organization, :branch, :conclusion, :evaluation, :run, :digest, :tracked, :now)
    ON CONFLICT (repository_id, check_name, head_sha) DO UPDATE
    SET branch_id = excluded.branch_id, conclusion = excluded.conclusion, evaluation = excluded.evaluation,
        check_run_id = excluded.check_run_id, summary_hash = excluded.summary_hash, tracked = excluded.tracked,
        unconfirmed = {MAY_ARRIVE},
        intent_leases = array_remove(h.intent_leases, :lease),
        written_at = excluded.written_at
    WHERE h.evaluation < excluded.evaluation
""")  # noqa: S608 - a constant of ours
# A head that two branches share under one name can be written on account of either, by two workers at once. GitHub
# shows the run that it numbered last; where that is not the one that was evaluated last, it shows an older verdict.
_OVERTAKEN = text("""
    SELECT h.repository_id, h.check_name, h.head_sha, (h.evaluation > k.evaluation) <> (h.check_run_id > k.run)
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]),
                CAST(:evaluations AS bigint[]), CAST(:runs AS bigint[])) AS k (repository, name, sha, evaluation, run)
    JOIN head_checks h ON h.repository_id = k.repository AND h.check_name = k.name AND h.head_sha = k.sha
    WHERE h.evaluation > k.evaluation OR h.evaluation < k.evaluation AND h.check_run_id > k.run
    ORDER BY h.repository_id, h.check_name, h.head_sha FOR UPDATE OF h
""")
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


def read_back_all(uow: UnitOfWork, *, at_once: bool = False) -> None:
    """Have the checks of all branches read back; `at_once`: also of those that wait for their next attempt."""
    uow.session.execute(_READ_BACK_ALL, {"now": uow.now, "at_once": at_once})
    uow.wake("reconcile")


def record_writes(leased: LeasedTransaction, written: Sequence[tuple[CheckUpdate, int | None]]) -> None:
    """Record the updates that GitHub has confirmed, with their check runs, for the branches that are held.

    A head that another worker has written on account of a sibling branch is read back at once if the two writes arrived
    in another order than they were evaluated in, or if that worker has mirrored a path into the sibling since the
    evaluation: it may have found then that nothing was to be written.
    """
    held = [(update, run) for update, run in written if update.head.branch_id in leased.held]
    if held:
        entered = _find_new_paths(leased.uow, [update.head for update, _run in held])
        overtaken = _find_overtaken(leased.uow, held)
        leased.uow.session.execute(_RECORD, [_row(leased, update, run) for update, run in held])
        end_write_intents(leased, (head for head, _out_of_order in overtaken))
        out_of_order = {head.key: head for head, is_out_of_order in overtaken if is_out_of_order}
        _read_back(leased.uow, list((entered | out_of_order).values()))


def record_readings(leased: LeasedTransaction, updates: Sequence[CheckUpdate]) -> None:
    """Record the checks that were read back, say what they should, and are not what we have recorded."""
    read = [(update, update.head.remote_check) for update in updates if update.matches_remote]
    record_writes(leased, [(update, check.id) for update, check in read if check is not None])


def read_back_late_writes(uow: UnitOfWork, heads: Sequence[Head]) -> None:
    """Have heads read back at once that were written, or may have been, after their lease was lost.

    Such a write is not recorded (I2). Its `success` becomes unconfirmed, because the new lease holder may have recorded
    something else meanwhile.
    """
    if heads:
        lock_branches(uow, {head.branch_id for head in heads})
        _read_back(uow, heads)


def _read_back(uow: UnitOfWork, heads: Sequence[Head]) -> None:
    """Make the locked branches of these heads due, to be read back; the heads are unconfirmed until then."""
    if heads:
        uow.session.execute(_READ_BACK, {"ids": sorted({head.branch_id for head in heads}), "now": uow.now})
        mark_unconfirmed(uow, heads)
        uow.wake("reconcile")


def _find_new_paths(uow: UnitOfWork, heads: Iterable[Head]) -> dict[HeadKey, Head]:
    """Add the paths into sibling branches that were mirrored since the evaluation; return the heads that have some."""
    shared = {head.key: head for head in heads if head.key.of_pattern}
    if not shared:
        return {}
    before = {key: len(head.paths) for key, head in shared.items()}
    add_sibling_paths(uow, shared)
    return {key: head for key, head in shared.items() if len(head.paths) > before[key]}


def _find_overtaken(uow: UnitOfWork, written: Sequence[tuple[CheckUpdate, int | None]]) -> list[tuple[Head, bool]]:
    """Return the heads that another worker has recorded as evaluated or written later.

    With each goes whether its last check run at GitHub is not that of the last evaluation.
    """
    heads = {update.head.key: update.head for update, _run in written}
    values = {
        **key_columns(update.head.key for update, _run in written),
        "evaluations": [update.evaluation for update, _run in written],
        "runs": [run for _update, run in written],
    }
    rows = uow.session.execute(_OVERTAKEN, values)
    return [(heads[HeadKey(*key)], bool(out_of_order)) for *key, out_of_order in rows]


def _row(leased: LeasedTransaction, update: CheckUpdate, run: int | None) -> Mapping[str, object]:
    key = update.head.key
    return {
        "repository": key.repository_id,
        "name": key.check_name,
        "sha": key.sha,
        "organization": update.head.organization_id,
        "branch": update.head.branch_id,
        "conclusion": update.conclusion,
        "evaluation": update.evaluation,
        "run": run,
        "digest": update.summary_hash,
        "tracked": bool(update.head.paths),
        "now": leased.uow.now,
        **lease_columns(leased.lease),
    }


# A branch that was made due since it was leased (a higher generation, or to be read back) is due at once, whatever the
# result of this pass; else at the time of the second reading after a lease that was taken over (`leases.py`).
_FINISH = text("""
    UPDATE watched_branches b
    SET written_generation = d.generation, lease_token = NULL, lease_holder = NULL, lease_until = NULL,
        attempts = 0, deferred_rank = NULL, last_error_code = NULL, last_error_message = NULL,
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
    return set(uow.session.scalars(_WRITTEN_TARGETS, {**columns, **counts}))


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
    waits = error.kind in {ErrorKind.RATE_LIMIT, ErrorKind.SECONDARY_RATE_LIMIT, ErrorKind.WITHHELD}
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
