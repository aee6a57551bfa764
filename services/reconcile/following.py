"""Following heads: which commits can be merged now, which no longer, and who else has a say in each.

A `success` may stand only on heads that we follow: a commit that no open pull request has any more could come back
(a closed pull request is reopened) while we hear of nothing. So what falls out is turned to `failure`, last of all.
"""

from collections.abc import Iterable, Mapping

from sqlalchemy import TextClause, text

from integrations.github import BranchHeads
from rules.freezes.merge_rank import SUPERSEDED
from services.core.unit_of_work import UnitOfWork
from services.github_access.failures import retryable
from services.reconcile.claims import ClaimedBranch
from services.reconcile.doubts import columns
from services.reconcile.heads import Head, HeadKey, Way

_FOLLOWED = text("""
    SELECT h.repository_id, h.check_name, h.head_sha, h.branch_id, h.doubtful
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[])) AS k (repository, name)
    JOIN head_checks h ON h.repository_id = k.repository AND h.check_name = k.name
    WHERE h.followed
""")
_SET_FOLLOWED = text("""
    UPDATE head_checks h SET followed = :followed
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]))
         AS k (repository, name, sha)
    WHERE h.repository_id = k.repository AND h.check_name = k.name AND h.head_sha = k.sha AND h.followed <> :followed
""")
_TO_DEMOTE = text("""
    SELECT h.repository_id, h.check_name, h.head_sha, h.branch_id, h.doubtful
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[])) AS k (repository, name)
    JOIN head_checks h ON h.repository_id = k.repository AND h.check_name = k.name
    WHERE NOT h.followed AND (h.conclusion = 'success' OR h.doubtful)
""")
_SIBLING_WAYS = text("""
    SELECT p.repository_id, b.check_name, p.head_sha, b.id, b.name, p.number
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]))
         AS k (repository, name, sha)
    JOIN pull_requests p ON p.repository_id = k.repository AND p.head_sha = k.sha AND p.state = 'open'
    JOIN watched_branches b ON b.repository_id = p.repository_id AND b.name = p.base_branch AND b.check_name = k.name
""")


def follow(
    uow: UnitOfWork,
    heads: dict[HeadKey, Head],
    seen: Iterable[tuple[ClaimedBranch, BranchHeads]],
    before: set[tuple[str, str]],
) -> None:
    """Complete `heads`: add the ways of sibling branches, and the heads that have to be demoted (without any way).

    A head may have been written on account of a sibling branch under the same check name, which nobody looks at now.
    Whoever sees it fall out demotes it. While the sibling still has it, it is the sibling's business, unless it was
    ours `before` as well (repository and commit), so that its verdict or its words may have to change.

    A branch whose queue could not be read just now lets nothing fall out. One whose queue we may not see does: nothing
    of that queue has a `success` of ours.
    """
    whole = [branch for branch, found in seen if found.error is None and retryable(found.queue_error) is None]
    missing = _rows(uow, _FOLLOWED, whole, heads)
    heads |= {head.key: head for head, _own in missing}
    add_siblings(uow, heads)
    _mark(uow, [head.key for head in heads.values() if head.ways], followed=True)
    _mark(uow, [head.key for head, _own in missing if not head.ways], followed=False)
    for head, own in missing:
        if not head.ways or not (own or (head.key.repository_id, head.key.sha) in before):
            del heads[head.key]
    heads |= {head.key: head for head, _own in _rows(uow, _TO_DEMOTE, whole, heads)}


def _rows(
    uow: UnitOfWork, query: TextClause, whole: list[ClaimedBranch], heads: dict[HeadKey, Head]
) -> list[tuple[Head, bool]]:
    """Return what the query finds under the check names of these branches and is not among `heads`, without ways.

    With each head, whether it is these branches' business: written on account of one of them, or doubtful.
    """
    by_name = {(branch.repository_id, branch.check_name): branch for branch in whole}
    by_id = {branch.id: branch for branch in whole}
    names = {"repositories": [pair[0] for pair in by_name], "names": [pair[1] for pair in by_name]}
    found = []
    for repository_id, check_name, sha, branch_id, doubtful in uow.session.execute(query, names):
        key = HeadKey(repository_id, check_name, sha)
        if key not in heads:
            branch = by_id.get(branch_id) or by_name[repository_id, check_name]
            head = Head(key, branch.repository_node_id, branch.id, branch.organization_id, SUPERSEDED)
            found.append((head, branch_id in by_id or doubtful))
    return found


def add_siblings(uow: UnitOfWork, heads: Mapping[HeadKey, Head]) -> None:
    """Add every way that the mirror of pull requests knows, of whichever base under the same check name."""
    for repository_id, check_name, sha, branch_id, branch, number in uow.session.execute(_SIBLING_WAYS, columns(heads)):
        head = heads[HeadKey(repository_id, check_name, sha)]
        way = Way(branch_id, branch, (number,))
        if way not in head.ways:
            head.ways.append(way)


def _mark(uow: UnitOfWork, keys: list[HeadKey], *, followed: bool) -> None:
    if keys:
        uow.session.execute(_SET_FOLLOWED, {**columns(keys), "followed": followed})
