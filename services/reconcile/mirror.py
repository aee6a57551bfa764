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

# One statement for a whole pass: a round trip for every branch would take longer than the calls to GitHub.
# A pull request that another worker has read with another base since we read it is left as that worker saw it.
_MIRROR = text("""
    WITH seen AS (
        SELECT * FROM unnest(CAST(:seen_repositories AS text[]), CAST(:seen_bases AS text[]), CAST(:owners AS text[]),
                             CAST(:names AS text[]), CAST(:archived AS boolean[]), CAST(:private AS boolean[]))
             AS s (repository, base, owner, name, archived, private)
    ), found AS (
        SELECT * FROM unnest(CAST(:ids AS text[]), CAST(:organizations AS text[]), CAST(:repositories AS text[]),
                             CAST(:numbers AS int[]), CAST(:titles AS text[]), CAST(:authors AS text[]),
                             CAST(:urls AS text[]), CAST(:bases AS text[]), CAST(:heads AS text[]),
                             CAST(:ranks AS smallint[]), CAST(:read_at AS timestamptz[]), CAST(:node_ids AS text[]))
             AS f (id, organization, repository, number, title, author, url, base, head_sha, rank, read_at, node_id)
    ), before AS (
        SELECT p.repository_id, p.base_branch, p.number, p.head_sha FROM seen
        JOIN pull_requests p ON p.repository_id = repository AND p.base_branch = base AND p.state = 'open'
        UNION
        SELECT p.repository_id, p.base_branch, p.number, p.head_sha FROM found
        JOIN pull_requests p ON p.repository_id = repository AND p.number = found.number AND p.state = 'open'
    ), after AS (SELECT repository, base, number, head_sha FROM found), closed AS (
        UPDATE pull_requests p SET state = 'closed', seen_at = :now FROM seen
        WHERE p.repository_id = repository AND p.base_branch = base AND p.state = 'open'
          AND NOT EXISTS (SELECT FROM found f WHERE f.repository = p.repository_id AND f.number = p.number)
    ), saved AS (
        INSERT INTO pull_requests (id, organization_id, repository_id, number, title, author, url, base_branch,
                                   head_sha, state, merge_rank, created_at, seen_at, head_since, node_id)
        SELECT id, organization, repository, number, title, author, url, base, head_sha, 'open', rank, :now, read_at,
               :now, node_id
        FROM found f
        WHERE NOT EXISTS (
            SELECT FROM pull_requests p
            WHERE p.repository_id = f.repository AND p.number = f.number AND p.state = 'open'
              AND p.base_branch <> f.base AND p.seen_at > f.read_at)
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
    ), renamed AS (
        UPDATE repositories r SET owner = s.owner, name = s.name, archived = s.archived, private = s.private FROM seen s
        WHERE r.id = s.repository AND (r.owner, r.name, r.archived, r.private)
              IS DISTINCT FROM (s.owner, s.name, s.archived, s.private)
    )
    SELECT repository_id, base_branch FROM (TABLE before EXCEPT TABLE after) AS gone
    UNION
    SELECT repository, base FROM (TABLE after EXCEPT TABLE before) AS come
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
    complete = [(branch, heads) for branch, heads in read if heads.error is None and heads.repository is not None]
    if complete and (changed := _save(leased.uow, complete, read_at) | _save_queues(leased.uow, complete)):
        mark_patterns(leased, changed)


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


def rank_of(pull: PullHead) -> int:
    """Return how soon a pull request could be merged."""
    return merge_rank(
        draft=pull.draft,
        auto_merge=pull.auto_merge,
        review_decision=pull.review_decision,
        in_queue=pull.in_queue,
    )


def _save(uow: UnitOfWork, complete: FetchedHeads, read_at: Mapping[str, datetime]) -> set[tuple[str, str]]:
    """Save pull requests and the names of repositories; return repository and name of branches whose heads changed."""
    seen = [(branch, heads.repository) for branch, heads in complete if heads.repository is not None]
    # One pull request is seen twice when it was retargeted between two calls; the later reading is kept.
    pulls = {(branch.repository_id, pull.number): (branch, pull) for branch, heads in complete for pull in heads.pulls}
    rows = pulls.values()
    values = {
        "seen_repositories": [branch.repository_id for branch, _repository in seen],
        "seen_bases": [branch.name for branch, _repository in seen],
        "owners": [repository.owner for _branch, repository in seen],
        "names": [repository.name for _branch, repository in seen],
        "archived": [repository.archived for _branch, repository in seen],
        "private": [repository.private for _branch, repository in seen],
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
    }
    return {(repository, base) for repository, base in uow.session.execute(_MIRROR, values)}
