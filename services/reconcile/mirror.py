"""The mirror of pull requests and merge queues: what GitHub showed of them when their branches were last read."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import text

from integrations.github import BranchHeads, CheckState, PullHead, QueueEntry
from rules.freezes.merge_rank import merge_rank
from rules.ids import new_id
from services.core.unit_of_work import UnitOfWork
from services.github_access.failures import retryable
from services.reconcile.heads import ReadChecks
from services.reconcile.leases import BranchToRead, LeasedTransaction

FetchedHeads = list[tuple[BranchToRead, BranchHeads]]

# Each statement takes a whole pass at once: a round trip for every branch would take longer than the calls to GitHub.
# A pull request that another worker has read with another base since we read it is left as that worker saw it.
_UPSERT = text("""
    INSERT INTO pull_requests (id, organization_id, repository_id, number, title, author, url, base_branch, head_sha,
                               state, merge_rank, created_at, seen_at, head_since, node_id)
    SELECT n.id, n.organization, n.repository, n.number, n.title, n.author, n.url, n.base, n.head_sha, 'open', n.rank,
           :now, n.read_at, :now, n.node_id
    FROM unnest(CAST(:ids AS text[]), CAST(:organizations AS text[]), CAST(:repositories AS text[]),
                CAST(:numbers AS int[]), CAST(:titles AS text[]), CAST(:authors AS text[]), CAST(:urls AS text[]),
                CAST(:bases AS text[]), CAST(:heads AS text[]), CAST(:ranks AS smallint[]),
                CAST(:read_at AS timestamptz[]), CAST(:node_ids AS text[]))
         AS n (id, organization, repository, number, title, author, url, base, head_sha, rank, read_at, node_id)
    WHERE NOT EXISTS (
        SELECT FROM pull_requests p
        WHERE p.repository_id = n.repository AND p.number = n.number AND p.state = 'open' AND p.base_branch <> n.base
          AND p.seen_at > n.read_at)
    ON CONFLICT (repository_id, number) DO UPDATE
    SET title = excluded.title, author = excluded.author, url = excluded.url, base_branch = excluded.base_branch,
        head_sha = excluded.head_sha, state = 'open', merge_rank = excluded.merge_rank, seen_at = excluded.seen_at,
        node_id = excluded.node_id,
        head_since = CASE
            WHEN (pull_requests.base_branch, pull_requests.head_sha, pull_requests.state)
                 = (excluded.base_branch, excluded.head_sha, 'open')
            THEN coalesce(pull_requests.head_since, excluded.head_since) ELSE excluded.head_since END
    WHERE pull_requests.head_since IS NULL OR pull_requests.node_id IS NULL
       OR (pull_requests.title, pull_requests.base_branch, pull_requests.head_sha, pull_requests.state,
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
_RENAME = text("""
    UPDATE repositories r SET owner = n.owner, name = n.name, archived = n.archived, private = n.private
    FROM unnest(CAST(:ids AS text[]), CAST(:owners AS text[]), CAST(:names AS text[]), CAST(:archived AS boolean[]),
                CAST(:private AS boolean[])) AS n (id, owner, name, archived, private)
    WHERE r.id = n.id AND (r.owner, r.name, r.archived, r.private)
          IS DISTINCT FROM (n.owner, n.name, n.archived, n.private)
""")


_BEFORE = text("""
    SELECT p.repository_id, p.base_branch, p.number, p.head_sha
    FROM unnest(CAST(:repositories AS text[]), CAST(:bases AS text[])) AS seen (repository, base)
    JOIN pull_requests p ON p.repository_id = seen.repository AND p.base_branch = seen.base AND p.state = 'open'
    UNION
    SELECT p.repository_id, p.base_branch, p.number, p.head_sha
    FROM unnest(CAST(:open_repositories AS text[]), CAST(:open_numbers AS int[])) AS o (repository, number)
    JOIN pull_requests p ON p.repository_id = o.repository AND p.number = o.number AND p.state = 'open'
""")
_QUEUED = text("SELECT branch_id, head_sha, position, numbers FROM queue_entries WHERE branch_id = ANY(:branches)")
_DEQUEUE = text("DELETE FROM queue_entries WHERE branch_id = ANY(:branches)")
_QUEUE = text("""
    INSERT INTO queue_entries (branch_id, head_sha, position, numbers, organization_id)
    VALUES (:branch, :sha, :position, CAST(:numbers AS int[]), :organization)
""")
# The checks of the patterns of these branches: their heads are others now. A pass that has such a check evaluates them.
_MARK_PATTERNS = text("""
    UPDATE checks c
    SET wanted_generation = nextval('generations'), due_at = :now, attempts = 0, deferred_rank = NULL
    WHERE c.id IN (
        SELECT pattern.id FROM unnest(CAST(:repositories AS text[]), CAST(:names AS text[])) AS n (repository, name)
        JOIN watched_branches b ON b.repository_id = n.repository AND b.name = n.name
        JOIN checks pattern ON pattern.repository_id = b.repository_id AND pattern.name = b.pattern_check_name
    ) AND c.id <> ALL(CAST(:evaluated AS bigint[]))
""")


def update_mirror(leased: LeasedTransaction, read: FetchedHeads, read_at: Mapping[str, datetime]) -> None:
    """Save the open pull requests and queue entries of each branch that was read, and mark other pull requests closed.

    `read_at` has, by branch id, when the reading of the branch began. Where the heads of a branch have changed, the
    check of its pattern is due, unless this pass has it. A queue that could not be read just now stays as it was; one
    that we have no permission to see is empty: its commits have no `success` of ours.
    """
    uow = leased.uow
    complete = [(branch, heads) for branch, heads in read if heads.error is None and heads.repository is not None]
    if not complete:
        return
    pulls = [(branch, pull) for branch, heads in complete for pull in heads.pulls]
    changed = _changed_bases(uow, complete, pulls) | _save_queues(uow, complete)
    _close(uow, complete, pulls)
    _write(uow, pulls, read_at)
    if changed:
        mark_patterns(leased, changed)
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


def mark_patterns(leased: LeasedTransaction, changed: Collection[tuple[str, str]]) -> None:
    """Have the checks of the patterns of branches (repository id and name) evaluated, unless this pass has them."""
    values = {"repositories": [pair[0] for pair in changed], "names": [pair[1] for pair in changed]}
    uow = leased.uow
    uow.session.execute(_MARK_PATTERNS, {**values, "evaluated": list(leased.held), "now": uow.now})
    uow.wake("reconcile")


def shown_checks(read: FetchedHeads) -> ReadChecks:
    """Return the checks that GitHub shows on what was read back."""
    shown: dict[tuple[str, str], Sequence[CheckState]] = {}
    for branch, heads in read:
        if branch.read_back:
            shown |= {(branch.repository_id, pull.head_sha): pull.checks for pull in heads.pulls}
            shown |= {
                (branch.repository_id, entry.head_sha): entry.checks
                for entry in heads.queue
                if entry.head_sha is not None
            }
    return shown


def _changed_bases(
    uow: UnitOfWork, complete: FetchedHeads, pulls: Sequence[tuple[BranchToRead, PullHead]]
) -> set[tuple[str, str]]:
    """Return repository and name of the branches whose pull requests or their heads differ from the mirrored ones."""
    found = uow.session.execute(_BEFORE, _bases(complete, pulls))
    before = {(repository, base, number, sha) for repository, base, number, sha in found}
    after = {(branch.repository_id, branch.name, pull.number, pull.head_sha) for branch, pull in pulls}
    return {(repository, base) for repository, base, _number, _sha in before ^ after}


def _save_queues(uow: UnitOfWork, complete: FetchedHeads) -> set[tuple[str, str]]:
    """Save the queues that differ from the mirrored ones; return repository and name of their branches."""
    readable = {branch: heads for branch, heads in complete if retryable(heads.queue_error) is None}
    after = {branch: queue_entries(heads.queue) for branch, heads in readable.items()}
    before: dict[str, dict[str, Any]] = defaultdict(dict)
    for branch_id, sha, position, numbers in uow.session.execute(
        _QUEUED, {"branches": [branch.id for branch in readable]}
    ):
        before[branch_id][sha] = (position, numbers)
    changed = [branch for branch, entries in after.items() if entries != before[branch.id]]
    if changed:
        uow.session.execute(_DEQUEUE, {"branches": [branch.id for branch in changed]})
    rows = [
        {
            "branch": branch.id,
            "sha": sha,
            "position": position,
            "numbers": numbers,
            "organization": branch.organization_id,
        }
        for branch in changed
        for sha, (position, numbers) in after[branch].items()
    ]
    if rows:
        uow.session.execute(_QUEUE, rows)
    return {(branch.repository_id, branch.name) for branch in changed}


def queue_entries(queue: Sequence[QueueEntry]) -> dict[str, tuple[int, list[int] | None]]:
    """Return the entries that have a commit: position, and the numbers of all pull requests that merge with it."""
    ahead: list[int | None] = []
    entries = {}
    for entry in sorted(queue, key=lambda each: each.position):
        ahead.append(entry.pull_number)
        if entry.head_sha is not None:
            known = [number for number in ahead if number is not None]
            entries[entry.head_sha] = (entry.position, known if len(known) == len(ahead) else None)
    return entries


def _bases(complete: FetchedHeads, pulls: Sequence[tuple[BranchToRead, PullHead]]) -> dict[str, object]:
    return {
        "repositories": [branch.repository_id for branch, _heads in complete],
        "bases": [branch.name for branch, _heads in complete],
        "open_repositories": [branch.repository_id for branch, _pull in pulls],
        "open_numbers": [pull.number for _branch, pull in pulls],
    }


def _close(uow: UnitOfWork, complete: FetchedHeads, pulls: Sequence[tuple[BranchToRead, PullHead]]) -> None:
    uow.session.execute(_CLOSE, {**_bases(complete, pulls), "now": uow.now})


def rank_of(pull: PullHead) -> int:
    """Return how soon a pull request could be merged."""
    return merge_rank(
        draft=pull.draft,
        auto_merge=pull.auto_merge,
        review_decision=pull.review_decision,
        in_queue=pull.in_queue,
    )


def _write(uow: UnitOfWork, pulls: Sequence[tuple[BranchToRead, PullHead]], read_at: Mapping[str, datetime]) -> None:
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
            "node_ids": [pull.node_id for _branch, pull in rows],
            "now": uow.now,
        },
    )
