"""Tracked heads: which commits can be merged now, which no longer, and which branches share each.

A `success` may stand only on tracked heads: a commit that has no open pull request any more could get one again (a
closed pull request is reopened) before we are notified. So a head that is no longer tracked is turned to `failure`,
after everything else.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import TextClause, text

from integrations.github import BranchHeads
from rules.freezes.merge_rank import SUPERSEDED
from services.core.unit_of_work import UnitOfWork
from services.github_access.failures import retryable
from services.pull_request_exceptions.verdicts import freezes_of
from services.reconcile.heads import Head, HeadKey, MergePath
from services.reconcile.leases import LeasedBranch
from services.reconcile.write_intents import key_columns

_TRACKED = text("""
    SELECT h.repository_id, h.check_name, h.head_sha, h.branch_id, h.unconfirmed, h.conclusion
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[])) AS k (repository, name)
    JOIN head_checks h ON h.repository_id = k.repository AND h.check_name = k.name
    WHERE h.tracked
""")
_SET_TRACKED = text("""
    UPDATE head_checks h SET tracked = :tracked
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]))
         AS k (repository, name, sha)
    WHERE h.repository_id = k.repository AND h.check_name = k.name AND h.head_sha = k.sha AND h.tracked <> :tracked
""")
_TO_DEMOTE = text("""
    SELECT h.repository_id, h.check_name, h.head_sha, h.branch_id, h.unconfirmed, h.conclusion
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[])) AS k (repository, name)
    JOIN head_checks h ON h.repository_id = k.repository AND h.check_name = k.name
    WHERE NOT h.tracked AND (h.conclusion = 'success' OR h.unconfirmed)
""")
_SIBLING_PATHS = text("""
    SELECT p.repository_id, k.name, p.head_sha, b.id, b.name, p.number
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]))
         AS k (repository, name, sha)
    JOIN pull_requests p ON p.repository_id = k.repository AND p.head_sha = k.sha AND p.state = 'open'
    JOIN watched_branches b ON b.repository_id = p.repository_id AND b.name = p.base_branch
         AND k.name IN (b.check_name, b.pattern_check_name)
""")


def update_tracked_heads(
    uow: UnitOfWork,
    heads: dict[HeadKey, Head],
    fetched: Iterable[tuple[LeasedBranch, BranchHeads]],
    before: set[tuple[str, str]],
) -> None:
    """Complete `heads`: add the paths into sibling branches, and the heads that have to be demoted (without any path).

    A head that none of these branches has any more is superseded, unless the mirror has a pull request of it into a
    sibling branch. It is then left to the passes over the sibling, unless its verdict or its text may have to change.
    Heads of sibling branches that this pass has not read are left alone, above all the commits of their merge queues,
    which the mirror does not have. These branches' own are those written on account of one of them, and those that one
    of them had `before` (repository and commit).

    While a frozen branch has no rule of its own, the check of its pattern protects it. Then a recorded `success` of
    that check on any head of a sibling is evaluated as well: such a head could be pushed to the frozen branch.

    A branch whose queue could not be read just now supersedes no head. One whose queue we have no permission to see
    does: its queue entries have no `success` of ours.
    """
    complete = [branch for branch, found in fetched if found.error is None and retryable(found.queue_error) is None]
    unseen = _find(uow, _TRACKED, complete, heads)
    heads |= {recorded.head.key: recorded.head for recorded in unseen}
    add_sibling_paths(uow, heads)
    own = {recorded.head.key for recorded in unseen if recorded.own or recorded.head.key.commit in before}
    superseded = [recorded.head.key for recorded in unseen if not recorded.head.paths and recorded.head.key in own]
    _set_tracked(uow, [head.key for head in heads.values() if head.paths], tracked=True)
    _set_tracked(uow, superseded, tracked=False)
    closed = _closed_patterns(uow, complete)
    for recorded in unseen:
        key = recorded.head.key
        opens = recorded.success and (key.repository_id, key.check_name) in closed
        if not recorded.head.paths or not (key in own or recorded.unconfirmed or opens):
            del heads[key]  # superseded heads come back below, if GitHub may show a `success` on them
    heads |= {recorded.head.key: recorded.head for recorded in _find(uow, _TO_DEMOTE, complete, heads)}


@dataclass(frozen=True, slots=True)
class _RecordedHead:
    """A head with a recorded check that the branches of this pass do not have now."""

    head: Head
    own: bool
    """Whether it was written on account of one of these branches."""
    unconfirmed: bool
    success: bool
    """Whether it is recorded to show a `success`."""


def _closed_patterns(uow: UnitOfWork, branches: Iterable[LeasedBranch]) -> set[tuple[str, str]]:
    """Return repository id and name of the patterns' checks that protect a frozen branch without a rule of its own."""
    pairs = {(each.repository_id, each.pattern_check_name) for each in branches if each.pattern_check_name is not None}
    return set(freezes_of(uow, (), pairs)[1])


def _find(
    uow: UnitOfWork, query: TextClause, complete: list[LeasedBranch], heads: dict[HeadKey, Head]
) -> list[_RecordedHead]:
    """Return the heads that the query finds under the check names of these branches, except those in `heads`."""
    by_name = {(branch.repository_id, name): branch for branch in complete for name in branch.check_names}
    by_id = {branch.id: branch for branch in complete}
    names = {"repositories": [pair[0] for pair in by_name], "names": [pair[1] for pair in by_name]}
    found = []
    for repository_id, check_name, sha, branch_id, unconfirmed, conclusion in uow.session.execute(query, names):
        key = HeadKey(repository_id, check_name, sha)
        if key not in heads:
            branch = by_id.get(branch_id) or by_name[repository_id, check_name]
            head = Head(key, branch.repository_node_id, branch.id, branch.organization_id, SUPERSEDED)
            found.append(_RecordedHead(head, branch_id in by_id, unconfirmed, conclusion == "success"))
    return found


def add_sibling_paths(uow: UnitOfWork, heads: Mapping[HeadKey, Head]) -> None:
    """Add every path that the mirror of pull requests has, into any branch that has a check of that name."""
    rows = uow.session.execute(_SIBLING_PATHS, key_columns(heads))
    for repository_id, check_name, sha, branch_id, branch, number in rows:
        head = heads[HeadKey(repository_id, check_name, sha)]
        path = MergePath(branch_id, branch, (number,))
        if path not in head.paths:
            head.paths.append(path)


def _set_tracked(uow: UnitOfWork, keys: list[HeadKey], *, tracked: bool) -> None:
    if keys:
        uow.session.execute(_SET_TRACKED, {**key_columns(keys), "tracked": tracked})
