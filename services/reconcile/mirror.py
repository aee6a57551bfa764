"""The mirror of pull requests: what GitHub showed of them when their branches were last read."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import text

from integrations.github import BranchHeads, PullHead
from rules.freezes.merge_rank import GROUP, NOTHING_OPEN
from rules.ids import new_id
from services.core.unit_of_work import UnitOfWork
from services.reconcile.heads import FetchedHeads, rank_of
from services.reconcile.leases import LeasedBranch

# Each statement takes a whole pass at once: a round trip for every branch would take longer than the calls to GitHub.
# A pull request that another worker has read with another base since we read it is left as that worker saw it.
_UPSERT = text("""
    INSERT INTO pull_requests (id, organization_id, repository_id, number, title, author, url, base_branch, head_sha,
                               state, merge_rank, created_at, seen_at)
    SELECT n.id, n.organization, n.repository, n.number, n.title, n.author, n.url, n.base, n.head_sha, 'open', n.rank,
           :now, n.read_at
    FROM unnest(CAST(:ids AS text[]), CAST(:organizations AS text[]), CAST(:repositories AS text[]),
                CAST(:numbers AS int[]), CAST(:titles AS text[]), CAST(:authors AS text[]), CAST(:urls AS text[]),
                CAST(:bases AS text[]), CAST(:heads AS text[]), CAST(:ranks AS smallint[]),
                CAST(:read_at AS timestamptz[]))
         AS n (id, organization, repository, number, title, author, url, base, head_sha, rank, read_at)
    WHERE NOT EXISTS (
        SELECT FROM pull_requests p
        WHERE p.repository_id = n.repository AND p.number = n.number AND p.state = 'open' AND p.base_branch <> n.base
          AND p.seen_at > n.read_at)
    ON CONFLICT (repository_id, number) DO UPDATE
    SET title = excluded.title, author = excluded.author, url = excluded.url, base_branch = excluded.base_branch,
        head_sha = excluded.head_sha, state = 'open', merge_rank = excluded.merge_rank, seen_at = excluded.seen_at
    WHERE (pull_requests.title, pull_requests.base_branch, pull_requests.head_sha, pull_requests.state,
           pull_requests.merge_rank)
       IS DISTINCT FROM (excluded.title, excluded.base_branch, excluded.head_sha, 'open', excluded.merge_rank)
""")
_CLOSE = text("""
    UPDATE pull_requests p SET state = 'closed', seen_at = :now
    FROM unnest(CAST(:repositories AS text[]), CAST(:bases AS text[])) AS seen (repository, base)
    WHERE p.repository_id = seen.repository AND p.base_branch = seen.base AND p.state = 'open'
      AND NOT EXISTS (
        SELECT FROM unnest(CAST(:open_repositories AS text[]), CAST(:open_numbers AS int[])) AS o (repository, number)
        WHERE o.repository = p.repository_id AND o.number = p.number)
""")
_RANK = text("""
    UPDATE watched_branches b SET merge_rank = n.rank
    FROM unnest(CAST(:ids AS text[]), CAST(:ranks AS smallint[])) AS n (id, rank)
    WHERE b.id = n.id AND b.merge_rank <> n.rank
""")
_RENAME = text("""
    UPDATE repositories r SET owner = n.owner, name = n.name, archived = n.archived, private = n.private
    FROM unnest(CAST(:ids AS text[]), CAST(:owners AS text[]), CAST(:names AS text[]), CAST(:archived AS boolean[]),
                CAST(:private AS boolean[])) AS n (id, owner, name, archived, private)
    WHERE r.id = n.id AND (r.owner, r.name, r.archived, r.private)
          IS DISTINCT FROM (n.owner, n.name, n.archived, n.private)
""")


def update_mirror(
    uow: UnitOfWork, fetched: Iterable[tuple[LeasedBranch, BranchHeads]], read_at: Mapping[str, datetime]
) -> None:
    """Save the open pull requests of each branch that could be read, and mark the others closed.

    `read_at` has, by branch id, when the reading of the branch began.
    """
    complete = [(branch, heads) for branch, heads in fetched if heads.error is None and heads.repository is not None]
    if not complete:
        return
    pulls = [(branch, pull) for branch, heads in complete for pull in heads.pulls]
    _close(uow, complete, pulls)
    _write(uow, pulls, read_at)
    ranks = [
        GROUP if heads.queue else min(map(rank_of, heads.pulls), default=NOTHING_OPEN) for _branch, heads in complete
    ]
    uow.session.execute(_RANK, {"ids": [branch.id for branch, _heads in complete], "ranks": ranks})
    named = {branch.repository_id: heads.repository for branch, heads in complete if heads.repository is not None}
    uow.session.execute(
        _RENAME,
        {
            "ids": list(named),
            "owners": [repository.owner for repository in named.values()],
            "names": [repository.name for repository in named.values()],
            "archived": [repository.archived for repository in named.values()],
            "private": [repository.private for repository in named.values()],
        },
    )


def mirrored_heads(uow: UnitOfWork, branches: Collection[LeasedBranch]) -> set[tuple[str, str]]:
    """Return repository and commit of the heads that the branches had when they were last read."""
    rows = uow.session.execute(
        text(
            "SELECT p.repository_id, p.head_sha FROM pull_requests p "
            "JOIN watched_branches b ON b.repository_id = p.repository_id AND b.name = p.base_branch "
            "WHERE b.id = ANY(:branches) AND p.state = 'open'"
        ),
        {"branches": [branch.id for branch in branches]},
    )
    return {(repository_id, sha) for repository_id, sha in rows}


def _close(uow: UnitOfWork, complete: FetchedHeads, pulls: Sequence[tuple[LeasedBranch, PullHead]]) -> None:
    uow.session.execute(
        _CLOSE,
        {
            "repositories": [branch.repository_id for branch, _heads in complete],
            "bases": [branch.name for branch, _heads in complete],
            "open_repositories": [branch.repository_id for branch, _pull in pulls],
            "open_numbers": [pull.number for _branch, pull in pulls],
            "now": uow.now,
        },
    )


def _write(uow: UnitOfWork, pulls: Sequence[tuple[LeasedBranch, PullHead]], read_at: Mapping[str, datetime]) -> None:
    # One pull request is seen twice when it was retargeted between two calls; the later reading is kept.
    rows = list({(branch.repository_id, pull.number): (branch, pull) for branch, pull in pulls}.values())
    uow.session.execute(
        _UPSERT,
        {
            "ids": [new_id("pul") for _ in rows],
            "organizations": [branch.organization_id for branch, _pull in rows],
            "repositories": [branch.repository_id for branch, _pull in rows],
            "numbers": [pull.number for _branch, pull in rows],
            "titles": [pull.title for _branch, pull in rows],
            "authors": [pull.author or "ghost" for _branch, pull in rows],
            "urls": [pull.url for _branch, pull in rows],
            "bases": [branch.name for branch, _pull in rows],
            "heads": [pull.head_sha for _branch, pull in rows],
            "ranks": [rank_of(pull) for _branch, pull in rows],
            "read_at": [read_at[branch.id] for branch, _pull in rows],
            "now": uow.now,
        },
    )
