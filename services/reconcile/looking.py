"""Looking: reading the open heads of claimed branches, and refreshing the mirror of pull requests with what is seen."""

from collections.abc import Iterable, Sequence

from sqlalchemy import text

from integrations.github import BranchHeads, BranchRef, InstallationClient, PullHead
from rules.ids import new_id
from rules.ordering import NOTHING_OPEN, merge_rank
from services.reconcile.claims import ClaimedBranch
from services.unit import Unit

Seen = list[tuple[ClaimedBranch, BranchHeads]]


def look(client: InstallationClient, branches: Sequence[ClaimedBranch], app_id: int) -> Seen:
    """Read the open heads of up to one query's worth of branches that are all read back, or all not."""
    read_back = branches[0].read_back
    answers = client.open_heads(
        [BranchRef(branch.repository_node_id, branch.name) for branch in branches],
        read_back_app_id=app_id if read_back else None,
    )
    return list(zip(branches, answers, strict=True))


_UPSERT = text("""
    INSERT INTO pull_requests (id, organization_id, repository_id, number, title, author, url, base_branch, head_sha,
                               state, merge_rank, created_at, seen_at)
    SELECT n.id, :organization, :repository, n.number, n.title, n.author, n.url, :base, n.head_sha, 'open', n.rank,
           :now, :now
    FROM unnest(CAST(:ids AS text[]), CAST(:numbers AS int[]), CAST(:titles AS text[]), CAST(:authors AS text[]),
                CAST(:urls AS text[]), CAST(:heads AS text[]), CAST(:ranks AS smallint[]))
         AS n (id, number, title, author, url, head_sha, rank)
    ON CONFLICT (repository_id, number) DO UPDATE
    SET title = excluded.title, author = excluded.author, url = excluded.url, base_branch = excluded.base_branch,
        head_sha = excluded.head_sha, state = 'open', merge_rank = excluded.merge_rank, seen_at = excluded.seen_at
    WHERE (pull_requests.title, pull_requests.base_branch, pull_requests.head_sha, pull_requests.state,
           pull_requests.merge_rank)
       IS DISTINCT FROM (excluded.title, excluded.base_branch, excluded.head_sha, 'open', excluded.merge_rank)
""")

_CLOSE = text("""
    UPDATE pull_requests SET state = 'closed', seen_at = :now
    WHERE repository_id = :repository AND base_branch = :base AND state = 'open' AND number <> ALL(:numbers)
""")


def mirror(unit: Unit, seen: Iterable[tuple[ClaimedBranch, BranchHeads]]) -> None:
    """Write down the open pull requests of each branch that could be read, and that the others are closed."""
    for branch, heads in seen:
        if heads.error is not None or heads.repository is None:
            continue
        _mirror_branch(unit, branch, heads.pulls)
        unit.session.execute(
            text("UPDATE watched_branches SET merge_rank = :rank WHERE id = :id AND merge_rank <> :rank"),
            {"id": branch.id, "rank": min(map(rank_of, heads.pulls), default=NOTHING_OPEN)},
        )
        unit.session.execute(
            text(
                "UPDATE repositories SET owner = :owner, name = :name, archived = :archived, private = :private "
                "WHERE id = :id AND (owner, name, archived, private) IS DISTINCT FROM (:owner, :name, :archived, "
                ":private)"
            ),
            {
                "id": branch.repository_id,
                "owner": heads.repository.owner,
                "name": heads.repository.name,
                "archived": heads.repository.archived,
                "private": heads.repository.private,
            },
        )


def _mirror_branch(unit: Unit, branch: ClaimedBranch, pulls: Sequence[PullHead]) -> None:
    common = {"repository": branch.repository_id, "base": branch.name, "now": unit.now}
    numbers = [pull.number for pull in pulls]
    unit.session.execute(_CLOSE, {**common, "numbers": numbers})
    if pulls:
        unit.session.execute(
            _UPSERT,
            {
                **common,
                "organization": branch.organization_id,
                "ids": [new_id("pul") for _ in pulls],
                "numbers": numbers,
                "titles": [pull.title for pull in pulls],
                "authors": [pull.author or "ghost" for pull in pulls],
                "urls": [pull.url for pull in pulls],
                "heads": [pull.head_sha for pull in pulls],
                "ranks": [rank_of(pull) for pull in pulls],
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
