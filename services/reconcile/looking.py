"""Looking: reading the open heads of claimed branches, and refreshing the mirror of pull requests with what is seen."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import text

from integrations.github import BranchHeads, BranchRef, InstallationClient, PullHead
from rules.freezes.merge_rank import GROUP, NOTHING_OPEN, merge_rank
from rules.ids import new_id
from services.core.unit_of_work import UnitOfWork
from services.reconcile.claims import ClaimedBranch

Seen = list[tuple[ClaimedBranch, BranchHeads]]


def look(
    client: InstallationClient, branches: Sequence[ClaimedBranch], app_id: int, between: Callable[[], object]
) -> Seen:
    """Read the open heads of up to one query's worth of branches that are all read back, or all not.

    `between` is called before each query that reads back.
    """
    read_back = branches[0].read_back
    answers = client.open_heads(
        [BranchRef(branch.repository_node_id, branch.name) for branch in branches],
        read_back_app_id=app_id if read_back else None,
        between=between,
    )
    return list(zip(branches, answers, strict=True))


# Each statement takes a whole pass at once: a round trip for every branch would cost more than the code host does.
# A pull request that another worker has seen into another base since we looked is left as that one saw it.
_UPSERT = text("""
    INSERT INTO pull_requests (id, organization_id, repository_id, number, title, author, url, base_branch, head_sha,
                               state, merge_rank, created_at, seen_at)
    SELECT n.id, n.organization, n.repository, n.number, n.title, n.author, n.url, n.base, n.head_sha, 'open', n.rank,
           :now, n.looked_at
    FROM unnest(CAST(:ids AS text[]), CAST(:organizations AS text[]), CAST(:repositories AS text[]),
                CAST(:numbers AS int[]), CAST(:titles AS text[]), CAST(:authors AS text[]), CAST(:urls AS text[]),
                CAST(:bases AS text[]), CAST(:heads AS text[]), CAST(:ranks AS smallint[]),
                CAST(:looked_at AS timestamptz[]))
         AS n (id, organization, repository, number, title, author, url, base, head_sha, rank, looked_at)
    WHERE NOT EXISTS (
        SELECT FROM pull_requests p
        WHERE p.repository_id = n.repository AND p.number = n.number AND p.state = 'open' AND p.base_branch <> n.base
          AND p.seen_at > n.looked_at)
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


def mirror(
    uow: UnitOfWork, seen: Iterable[tuple[ClaimedBranch, BranchHeads]], looked_at: Mapping[str, datetime]
) -> None:
    """Write down the open pull requests of each branch that could be read, and that the others are closed.

    `looked_at` tells by branch when the look at it began.
    """
    whole = [(branch, heads) for branch, heads in seen if heads.error is None and heads.repository is not None]
    if not whole:
        return
    pulls = [(branch, pull) for branch, heads in whole for pull in heads.pulls]
    _close(uow, whole, pulls)
    _write(uow, pulls, looked_at)
    ranks = [GROUP if heads.queue else min(map(rank_of, heads.pulls), default=NOTHING_OPEN) for _branch, heads in whole]
    uow.session.execute(_RANK, {"ids": [branch.id for branch, _heads in whole], "ranks": ranks})
    named = {branch.repository_id: heads.repository for branch, heads in whole if heads.repository is not None}
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


def mirrored_heads(uow: UnitOfWork, branches: Collection[ClaimedBranch]) -> set[tuple[str, str]]:
    """Return repository and commit of the heads that the branches had when they were last looked at."""
    rows = uow.session.execute(
        text(
            "SELECT p.repository_id, p.head_sha FROM pull_requests p "
            "JOIN watched_branches b ON b.repository_id = p.repository_id AND b.name = p.base_branch "
            "WHERE b.id = ANY(:branches) AND p.state = 'open'"
        ),
        {"branches": [branch.id for branch in branches]},
    )
    return {(repository_id, sha) for repository_id, sha in rows}


def _close(uow: UnitOfWork, whole: Seen, pulls: Sequence[tuple[ClaimedBranch, PullHead]]) -> None:
    uow.session.execute(
        _CLOSE,
        {
            "repositories": [branch.repository_id for branch, _heads in whole],
            "bases": [branch.name for branch, _heads in whole],
            "open_repositories": [branch.repository_id for branch, _pull in pulls],
            "open_numbers": [pull.number for _branch, pull in pulls],
            "now": uow.now,
        },
    )


def _write(uow: UnitOfWork, pulls: Sequence[tuple[ClaimedBranch, PullHead]], looked_at: Mapping[str, datetime]) -> None:
    # One pull request is seen twice when it was retargeted between two calls; the later look is kept.
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
            "looked_at": [looked_at[branch.id] for branch, _pull in rows],
            "now": uow.now,
        },
    )


def rank_of(pull: PullHead) -> int:
    """Return how soon a pull request could merge."""
    return merge_rank(
        draft=pull.draft,
        auto_merge=pull.auto_merge,
        review_decision=pull.review_decision,
        in_queue=pull.in_queue,
    )
