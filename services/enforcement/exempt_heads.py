"""Exempt heads: the commits that exceptions let into stopped branches, which get the context of the stop.

A rule asks for the context *and* for the check of the branch, so a commit that ceases to be exempt is blocked by its
check alone, and nothing has to be taken back. But the context counts for all branches of the ruleset: a commit gets it
only if it may enter each of them, or has no `success` of the check that decides there.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence

from sqlalchemy import Row, select, text

from models.pull_requests import QueuedCommit
from rules.freezes.stops import FrozenBranch
from services.core.unit_of_work import UnitOfWork
from services.verdicts.facts import active_exceptions, freezes_of

_STANDING = text("""
    SELECT h.head_sha, b.id FROM watched_branches b
    LEFT JOIN branch_enforcement seen ON seen.branch_id = b.id
    JOIN head_checks h ON h.repository_id = b.repository_id AND h.head_sha = ANY(:shas)
         AND h.check_name = coalesce(seen.decisive_check, b.check_name)
         AND (h.conclusion = 'success' OR h.unconfirmed)
    WHERE b.id = ANY(:branches)
""")


def exempt_heads(uow: UnitOfWork, frozen: Sequence[FrozenBranch]) -> list[str]:
    """Return the commits that may have the context of a stop of these branches of one repository, in order."""
    names = {branch.id: branch.name for branch in frozen}
    freezes, _closed = freezes_of(uow, names, ())
    exceptions = active_exceptions(uow.session, freezes, uow.now)
    if not exceptions.rows:
        return []
    entering: defaultdict[str, set[str]] = defaultdict(set)
    for (branch_id, number), rows in exceptions.rows.items():
        sha = rows[0].head_sha
        if not exceptions.candidate((branch_id, names[branch_id]), number, sha, freezes).blocking():
            entering[sha].add(branch_id)
    for branch_id, sha, numbers in _queued(uow, names):
        if not exceptions.queue_candidate((branch_id, names[branch_id]), numbers, freezes).blocking():
            entering[sha].add(branch_id)
    standing: defaultdict[str, set[str]] = defaultdict(set)
    for sha, branch_id in uow.session.execute(_STANDING, {"shas": list(entering), "branches": list(names)}):
        standing[sha].add(branch_id)
    return sorted(sha for sha, branch_ids in entering.items() if standing[sha] <= branch_ids)


def _queued(uow: UnitOfWork, branch_ids: Collection[str]) -> Sequence[Row[str, str, list[int] | None]]:
    """Return the commits of the merge queues of branches, with the pull requests that would be merged with each."""
    queued = select(QueuedCommit.branch_id, QueuedCommit.head_sha, QueuedCommit.numbers)
    return uow.session.execute(queued.where(QueuedCommit.branch_id.in_(list(branch_ids)))).all()
