"""Detection of bypasses: pushes to frozen branches are found, classified and reported.

Each pass of the reconciler records the commits that the branches point at. A branch that has moved while a freeze
covered it is due; `detect_bypasses` then reads what GitHub itself recorded (its activity, the pull request, all runs of
our check), `rules/freezes/bypass.py` classifies it, and `services/bypass_detection/reports.py` records it once.

What is not noticed: a branch that was moved and moved back between two reads, and pushes to a newly
watched branch before it was first read. Deleting a branch is no push; creating it again at another commit is.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import select, text, update

from integrations.github import BranchHeads, GitHub, GitHubError
from models.installations import Installation
from models.repositories import BranchTip, Repository, WatchedBranch
from services.bypass_detection.evidence import ClassifiedPush, IncompleteError, PushedBranch, classify_pushes
from services.bypass_detection.reports import report
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import REQUEST, Lease, WorkQueue
from services.github_access.backoff import NEEDS_OPERATOR, backoff
from services.github_access.failures import RATE_LIMITS, is_installation_wide, pause_when_limited
from services.github_access.pauses import is_callable
from services.github_access.rate_limiter import background_client

logger = logging.getLogger(__name__)

MAX_READ_AGE = timedelta(minutes=5)
"""The longest time between the read of a branch and the record of it."""
MAX_BRANCHES = 10
"""Branches that one lease holds."""
MAX_INCOMPLETE_ATTEMPTS = 8
"""Attempts after which a push is classified although GitHub does not list how the commit came."""

# A freeze that ended since the branch was last seen counts as well; each moved branch costs one look into an index.
_NOTE = text(f"""
    WITH seen AS (
        SELECT b.id, b.organization_id, n.sha, coalesce(t.sha <> n.sha, false) AS moved, t.seen_at
        FROM unnest(CAST(:ids AS text[]), CAST(:shas AS text[])) AS n (id, sha)
        JOIN watched_branches b ON b.id = n.id LEFT JOIN branch_tips t ON t.branch_id = b.id
        ORDER BY b.id FOR NO KEY UPDATE OF b
    ), recent AS MATERIALIZED (
        SELECT f.id FROM freezes f
        WHERE f.organization_id IN (SELECT organization_id FROM seen WHERE moved) AND f.started_at <= :now
          AND coalesce(least(f.ended_at, f.ends_at), 'infinity')
              > (SELECT min(seen_at) FROM seen WHERE moved) - CAST(:read_age AS interval)
    ), landed AS (
        SELECT DISTINCT t.branch_id AS id FROM recent JOIN freeze_targets t ON t.freeze_id = recent.id
        WHERE t.branch_id IN (SELECT id FROM seen WHERE moved)
    )
    INSERT INTO branch_tips AS t (branch_id, organization_id, sha, seen_at, due_at)
    SELECT seen.id, seen.organization_id, seen.sha, :now, CASE WHEN landed.id IS NOT NULL THEN :now END
    FROM seen LEFT JOIN landed ON landed.id = seen.id ORDER BY seen.id
    ON CONFLICT (branch_id) DO UPDATE
    SET sha = excluded.sha, seen_at = excluded.seen_at,
        due_at = CASE WHEN excluded.due_at IS NULL THEN t.due_at ELSE {REQUEST.format(row="t")} END,
        moved_since = CASE WHEN excluded.due_at IS NULL THEN t.moved_since ELSE least(t.moved_since, t.seen_at) END,
        attempts = CASE WHEN excluded.due_at IS NULL THEN t.attempts ELSE 0 END
    RETURNING t.due_at
""")  # noqa: S608 - a constant of ours


def record_branch_tips(uow: UnitOfWork, seen: Iterable[tuple[str, BranchHeads]]) -> None:
    """Record the commits that branches (by id) point at; a branch that moved during a freeze becomes due.

    The first read of a branch only gives a commit to compare with; a branch that does not exist keeps its commit.
    """
    tips = {branch_id: heads.sha for branch_id, heads in seen if heads.sha is not None}
    if not tips:
        return
    values = {"ids": list(tips), "shas": list(tips.values()), "now": uow.now, "read_age": MAX_READ_AGE}
    if any(uow.session.scalars(_NOTE, values).all()):
        uow.wake("bypasses")


TIPS = WorkQueue(
    "bypasses",
    BranchTip,
    select(
        BranchTip.branch_id,
        BranchTip.organization_id,
        Repository.owner,
        Repository.name,
        WatchedBranch.name.label("branch"),
        WatchedBranch.check_name,
        BranchTip.sha,
        BranchTip.moved_since,
        BranchTip.attempts,
        Installation.id.label("installation_id"),
    )
    .join(WatchedBranch, WatchedBranch.id == BranchTip.branch_id)
    .join(Repository, Repository.id == WatchedBranch.repository_id)
    .join(Installation, Installation.id == Repository.installation_id)
    .where(
        Repository.removed_at.is_(None),
        is_callable(),
    )
    .order_by(BranchTip.due_at, BranchTip.branch_id),
)


def detect_bypasses(uow_factory: UnitOfWorkFactory, github: GitHub) -> bool:
    """Classify the pushes to due branches of one installation; False if none is due that is not leased already."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        first = TIPS.first(uow)
        if first is None:
            return False
        lease = TIPS.acquire(uow, within=(Installation.id, first.installation_id), limit=MAX_BRANCHES)
    if lease is None:
        return False
    with lease.while_held(uow_factory):
        _classify_all(uow_factory, github, first.installation_id, lease)
    return True


def _classify_all(uow_factory: UnitOfWorkFactory, github: GitHub, installation_id: int, lease: Lease) -> None:
    pending = [PushedBranch(*tuple(row)[:9]) for row in lease.rows]
    while pending:
        branch = pending[0]
        unfinished = replace(lease, rows=lease.rows[-len(pending) :])  # those of the branches that are pending
        client = background_client(uow_factory, github, installation_id, unfinished)
        try:
            accept_incomplete = branch.attempts >= MAX_INCOMPLETE_ATTEMPTS
            app_id = github.settings.app_id
            found = classify_pushes(uow_factory, client, app_id, branch, accept_incomplete=accept_incomplete)
        except GitHubError as error:
            failed = pending if is_installation_wide(error) else [branch]
            _fail(uow_factory, installation_id, lease, failed, error)
            pending = pending[len(failed) :]
        else:
            _finish(uow_factory, lease, branch, found)
            del pending[0]


def _finish(
    uow_factory: UnitOfWorkFactory, lease: Lease, branch: PushedBranch, found: Sequence[ClassifiedPush]
) -> None:
    for push in found:
        report(uow_factory, branch, push)
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if lease.release(uow, [branch.id]):
            done = update(BranchTip).where(BranchTip.branch_id == branch.id, BranchTip.due_at.is_(None))
            uow.session.execute(done.values(moved_since=None))


def _fail(
    uow_factory: UnitOfWorkFactory,
    installation_id: int,
    lease: Lease,
    branches: Sequence[PushedBranch],
    error: GitHubError,
) -> None:
    """Retry when GitHub allows it, else after a back-off, seldom where only a person can help.

    Waiting for a rate limit is no attempt: it does not make us accept incomplete evidence sooner.
    """
    if not isinstance(error, IncompleteError):
        level = logging.WARNING if error.kind in NEEDS_OPERATOR else logging.INFO
        logger.log(level, "pushes to %s cannot be read: %s", [branch.full_name for branch in branches], error)
    with uow_factory.open(SYSTEM_CALLER) as uow:
        pause_when_limited(uow, installation_id, error)
        for branch in sorted(branches, key=lambda branch: branch.id):
            due_at = uow.now + backoff(error, branch.attempts)
            counted = error.kind not in RATE_LIMITS
            lease.fail(uow, error.code, error.message, due_at, keys=[branch.id], counted=counted)
