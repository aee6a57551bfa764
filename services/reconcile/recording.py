"""Recording: what was written on which head, which branches are done, and the receipts of their freezes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from integrations.github import ErrorKind, GitHubError
from services.core.unit_of_work import UnitOfWork
from services.github_access.backoff import backoff
from services.reconcile.claims import ClaimedBranch, renew
from services.reconcile.doubts import columns, doubt
from services.reconcile.heads import Head, HeadKey
from services.reconcile.judging import Decision

_RECORD = text("""
    INSERT INTO head_checks (repository_id, check_name, head_sha, organization_id, branch_id, conclusion, evaluation,
                             check_run_id, summary_hash, followed, written_at)
    VALUES (:repository, :name, :sha, :organization, :branch, :conclusion, :evaluation, :run, :words, :followed, :now)
    ON CONFLICT (repository_id, check_name, head_sha) DO UPDATE
    SET branch_id = excluded.branch_id, conclusion = excluded.conclusion, evaluation = excluded.evaluation,
        check_run_id = excluded.check_run_id, summary_hash = excluded.summary_hash, followed = excluded.followed,
        doubtful = false, written_at = excluded.written_at
    WHERE head_checks.evaluation < excluded.evaluation
""")


# A head that two branches share under one name can be written on account of either, by two workers at once. The code
# host shows the run that it numbered last; where that is not the one that was judged last, it shows an older verdict.
_CROSSED = text("""
    SELECT h.repository_id, h.check_name, h.head_sha
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]),
                CAST(:evaluations AS bigint[]), CAST(:runs AS bigint[])) AS k (repository, name, sha, evaluation, run)
    JOIN head_checks h ON h.repository_id = k.repository AND h.check_name = k.name AND h.head_sha = k.sha
    WHERE h.evaluation <> k.evaluation AND (h.evaluation > k.evaluation) <> (h.check_run_id > k.run)
    ORDER BY h.repository_id, h.check_name, h.head_sha FOR UPDATE OF h
""")
_LOOK_AGAIN = text(
    "UPDATE watched_branches SET read_back = true, wanted_generation = wanted_generation + 1, due_at = :now "
    "WHERE id = ANY(:ids)"
)


def record(
    uow: UnitOfWork, token: str, written: Sequence[tuple[Decision, int | None]], unsure: Sequence[Decision] = ()
) -> set[str]:
    """Record what the code host has confirmed, and return the branches whose lease was lost in between.

    `unsure` are decisions that may have been written, though the answer was lost. What was written for a lost lease is
    recorded by nobody (I2): its branch becomes due at once, to be read back, and its `success` is doubted anew, because
    the present holder may have written and believed something else meanwhile. So it is with a head that another worker
    has written on account of a sibling branch, if the two arrived in another order than they were judged in.
    """
    branch_ids = sorted({decision.head.branch_id for decision in (*unsure, *(done for done, _run in written))})
    held = renew(uow, token, branch_ids)
    kept = [(decision, run) for decision, run in written if decision.head.branch_id in held]
    crossed = _crossed(uow, kept)
    if kept:
        uow.session.execute(_RECORD, [_row(uow, decision, run) for decision, run in kept])
    lost = set(branch_ids) - held
    again = lost.union(head.branch_id for head in crossed)
    if again:
        uow.session.execute(_LOOK_AGAIN, {"ids": sorted(again), "now": uow.now})
        late = [decision.head for decision in (*unsure, *(done for done, _run in written))]
        doubt(uow, [*crossed, *(head for head in late if head.branch_id in lost)])
        uow.wake("reconcile")
    return lost


def _crossed(uow: UnitOfWork, written: Sequence[tuple[Decision, int | None]]) -> list[Head]:
    """Return the heads whose last run at the code host is not that of the last judgement."""
    heads = {decision.head.key: decision.head for decision, _run in written}
    if not heads:
        return []
    values = {
        **columns(decision.head.key for decision, _run in written),
        "evaluations": [decision.evaluation for decision, _run in written],
        "runs": [run for _decision, run in written],
    }
    return [heads[HeadKey(*row)] for row in uow.session.execute(_CROSSED, values)]


def _row(uow: UnitOfWork, decision: Decision, run: int | None) -> Mapping[str, object]:
    key = decision.head.key
    return {
        "repository": key.repository_id,
        "name": key.check_name,
        "sha": key.sha,
        "organization": decision.head.organization_id,
        "branch": decision.head.branch_id,
        "conclusion": decision.conclusion,
        "evaluation": decision.evaluation,
        "run": run,
        "words": decision.summary_hash,
        "followed": bool(decision.head.ways),
        "now": uow.now,
    }


# What was asked for since the claim (a higher generation, or to be read back) is due at once, whatever this pass has
# come to; else a second look that is owed for a lease that was taken over (`claims.py`) is due at its time.
_FINISH = text("""
    UPDATE watched_branches b
    SET written_generation = d.generation, lease_token = NULL, lease_until = NULL, attempts = 0, waiting_rank = NULL,
        last_error_code = NULL, last_error_message = NULL,
        due_at = CASE WHEN b.wanted_generation > d.generation OR b.read_back THEN CAST(:now AS timestamptz)
                      ELSE b.look_again_at END
    FROM unnest(CAST(:branches AS text[]), CAST(:generations AS bigint[])) AS d (branch, generation)
    WHERE b.id = d.branch AND b.lease_token = :token AND b.lease_until > :now
    RETURNING b.id
""")
_RECEIPTS = text("""
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


def finish(uow: UnitOfWork, token: str, done: Sequence[tuple[ClaimedBranch, int]]) -> set[str]:
    """Give back the leases of branches whose heads (so many of each) all carry their verdict, and write receipts.

    Returns the freezes that may now be complete. The caller has locked the branches by renewing their leases; one whose
    lease has run out was judged by nobody in this pass, and stays due, whether somebody has taken it over or not.
    """
    if not done:
        return set()
    held = set(uow.session.scalars(_FINISH, {**_columns(done), "token": token, "now": uow.now}))
    kept = _columns([(branch, heads) for branch, heads in done if branch.id in held])
    return set(uow.session.scalars(_RECEIPTS, {**kept, "now": uow.now}))


def _columns(done: Sequence[tuple[ClaimedBranch, int]]) -> dict[str, list[Any]]:
    return {
        "branches": [branch.id for branch, _heads in done],
        "generations": [branch.generation for branch, _heads in done],
        "heads": [heads for _branch, heads in done],
    }


_MAKE_WAY = text("""
    UPDATE watched_branches b
    SET lease_token = NULL, lease_until = NULL, due_at = :due, read_back = b.read_back OR d.read_back,
        waiting_rank = CASE WHEN b.wanted_generation > d.generation THEN b.waiting_rank ELSE d.rank END
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
class Unfinished:
    """A branch that a pass leaves to a later one: how urgent the rest of it is, and how far it has come."""

    branch: ClaimedBranch
    rank: int | None
    total: int
    written: int


def make_way(uow: UnitOfWork, token: str, left: Sequence[Unfinished], due: datetime) -> None:
    """Give back the leases of branches that have not failed: what is more urgent, or somebody else, goes first."""
    listed = sorted(left, key=lambda one: one.branch.id)
    branches = [one.branch.id for one in listed]
    renew(uow, token, branches)
    values = {
        "branches": branches,
        "ranks": [one.rank for one in listed],
        "generations": [one.branch.generation for one in listed],
        "read_back": [one.branch.read_back for one in listed],
    }
    uow.session.execute(_MAKE_WAY, {**values, "token": token, "due": due})
    progress = {"totals": [one.total for one in listed], "written": [one.written for one in listed]}
    uow.session.execute(_PROGRESS, {"branches": branches, **progress})


_FAIL = text("""
    UPDATE watched_branches b
    SET lease_token = NULL, lease_until = NULL, last_error_code = :code, last_error_message = :message,
        due_at = CASE WHEN b.wanted_generation > :generation OR b.read_back THEN CAST(:now AS timestamptz)
                      ELSE CAST(:due AS timestamptz) END,
        attempts = CASE WHEN b.wanted_generation > :generation OR b.read_back THEN b.attempts ELSE b.attempts + 1 END,
        read_back = b.read_back OR :read_back
    WHERE b.id = :branch AND b.lease_token = :token
    RETURNING b.due_at
""")
_FAILED_TARGETS = text("""
    UPDATE freeze_targets t
    SET state = CASE WHEN :waits THEN t.state ELSE 'failed' END, attempts = t.attempts + 1, last_error_code = :code,
        last_error_message = :message, next_attempt_at = :due, heads_total = :heads, heads_written = :written
    WHERE t.branch_id = :branch AND t.generation <= :generation AND t.state IN ('pending', 'releasing', 'failed')
""")


def fail(uow: UnitOfWork, token: str, branch: ClaimedBranch, error: GitHubError, heads: tuple[int, int]) -> None:
    """Give back the lease of a branch that could not be brought up to date, and say when it is tried again.

    `heads` are how many it has, and how many carry their verdict. A branch that only waits for the code host's limits
    to pass has not failed. What was asked for since the claim is tried at once.
    """
    values = {
        "branch": branch.id,
        "generation": branch.generation,
        "token": token,
        "now": uow.now,
        "code": error.code,
        "message": error.message[:500],
        "due": uow.now + backoff(error, branch.attempts),
        "read_back": error.maybe_applied or branch.read_back,
        "heads": heads[0],
        "written": heads[1],
        "waits": error.kind in {ErrorKind.RATE_LIMIT, ErrorKind.SECONDARY_RATE_LIMIT},
    }
    due = uow.session.scalar(_FAIL, values)
    if due is not None:
        uow.session.execute(_FAILED_TARGETS, {**values, "due": due})
