"""Following heads: which commits can be merged now, which no longer, and who else has a say in each.

A `success` may stand only on heads that we follow: a commit that no open pull request has any more could come back
(a closed pull request is reopened) while we hear of nothing. So what falls out is turned to `failure`, last of all.
"""

from collections.abc import Iterable

from sqlalchemy import text

from integrations.github import BranchHeads
from rules.ordering import SUPERSEDED
from services.reconcile.claims import ClaimedBranch
from services.reconcile.heads import Head, HeadKey, Way
from services.unit import Unit

_FOLLOWED = text("""
    SELECT repository_id, check_name, head_sha, branch_id FROM head_checks
    WHERE branch_id = ANY(:branches) AND followed
""")
_SET_FOLLOWED = text("""
    UPDATE head_checks h SET followed = :followed
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]))
         AS k (repository, name, sha)
    WHERE h.repository_id = k.repository AND h.check_name = k.name AND h.head_sha = k.sha AND h.followed <> :followed
""")
_TO_DEMOTE = text("""
    SELECT repository_id, check_name, head_sha, branch_id FROM head_checks
    WHERE branch_id = ANY(:branches) AND NOT followed AND conclusion = 'success'
""")
_SIBLING_WAYS = text("""
    SELECT p.repository_id, b.check_name, p.head_sha, b.id, b.name, p.number
    FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[]), CAST(:shas AS text[]))
         AS k (repository, name, sha)
    JOIN pull_requests p ON p.repository_id = k.repository AND p.head_sha = k.sha AND p.state = 'open'
    JOIN watched_branches b ON b.repository_id = p.repository_id AND b.name = p.base_branch AND b.check_name = k.name
""")


def follow(unit: Unit, heads: dict[HeadKey, Head], seen: Iterable[tuple[ClaimedBranch, BranchHeads]]) -> None:
    """Complete `heads`: add the ways of sibling branches, and the heads that have to be demoted (without any way)."""
    whole = {branch.id: branch for branch, found in seen if found.error is None and found.queue_error is None}
    missing = _no_longer_seen(unit, heads, whole)
    for head in missing:
        heads[head.key] = head
    _add_siblings(unit, heads)
    _mark(unit, [head.key for head in heads.values() if head.ways], followed=True)
    gone = [head.key for head in missing if not head.ways]
    _mark(unit, gone, followed=False)
    for key in gone:
        del heads[key]
    for row in unit.session.execute(_TO_DEMOTE, {"branches": list(whole)}):
        head = _without_ways(HeadKey(*row[:3]), whole[row[3]])
        heads.setdefault(head.key, head)


def _no_longer_seen(unit: Unit, heads: dict[HeadKey, Head], whole: dict[str, ClaimedBranch]) -> list[Head]:
    rows = unit.session.execute(_FOLLOWED, {"branches": list(whole)})
    return [_without_ways(key, whole[row[3]]) for row in rows if (key := HeadKey(*row[:3])) not in heads]


def _without_ways(key: HeadKey, branch: ClaimedBranch) -> Head:
    return Head(key, branch.repository_node_id, branch.id, branch.organization_id, SUPERSEDED)


def _columns(keys: Iterable[HeadKey]) -> dict[str, list[str]]:
    listed = list(keys)
    return {
        "repositories": [key.repository_id for key in listed],
        "names": [key.check_name for key in listed],
        "shas": [key.sha for key in listed],
    }


def _add_siblings(unit: Unit, heads: dict[HeadKey, Head]) -> None:
    for repository_id, check_name, sha, branch_id, branch, number in unit.session.execute(
        _SIBLING_WAYS, _columns(heads)
    ):
        head = heads[HeadKey(repository_id, check_name, sha)]
        way = Way(branch_id, branch, (number,))
        if way not in head.ways:
            head.ways.append(way)


def _mark(unit: Unit, keys: list[HeadKey], *, followed: bool) -> None:
    if keys:
        unit.session.execute(_SET_FOLLOWED, {**_columns(keys), "followed": followed})
