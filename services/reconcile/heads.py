"""Heads: commits that could be merged into watched branches, and every path on which each of them could be.

A check belongs to a commit and a name, not to a pull request. Each commit has a check for every branch that it could be
merged into, and one for the pattern of that branch. All pull requests and queue entries that share commit and name are
gathered into one head and evaluated together: under the name of a pattern also those into sibling branches.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from integrations.github import BranchHeads, BranchRef, CheckState, InstallationClient, PullHead
from rules.freezes.check_names import is_pattern_check
from rules.freezes.merge_rank import GROUP, merge_rank
from services.reconcile.leases import LeasedBranch

FetchedHeads = list[tuple[LeasedBranch, BranchHeads]]


@dataclass(frozen=True, slots=True)
class HeadKey:
    """What a check is written on."""

    repository_id: str
    check_name: str
    sha: str

    @property
    def commit(self) -> tuple[str, str]:
        """Repository id and SHA: what the checks of all names are written on."""
        return self.repository_id, self.sha

    @property
    def of_pattern(self) -> bool:
        """Whether it is the check of a pattern, which sibling branches share."""
        return is_pattern_check(self.check_name)


@dataclass(frozen=True, slots=True)
class MergePath:
    """One path on which a head could be merged into a branch: a pull request, or an entry of its merge queue.

    `numbers` are all pull requests that would be merged with it; None if GitHub does not name them. A queue entry has a
    commit of its own, which is no pull request's head.
    """

    branch_id: str
    branch: str
    numbers: tuple[int, ...] | None
    queued: bool = False


@dataclass(slots=True)
class Head:
    """One head under one check name."""

    key: HeadKey
    repository_node_id: str
    branch_id: str
    """The leased branch on whose account it is written."""
    organization_id: str
    rank: int
    paths: list[MergePath] = field(default_factory=list)
    """Empty for a head that was superseded: nothing can merge it now."""
    remote_check: CheckState | None = None
    """The check that GitHub shows, if it was read back."""
    read_back: bool = False


def fetch_heads(
    client: InstallationClient, branches: Sequence[LeasedBranch], app_id: int, before_query: Callable[[], object]
) -> FetchedHeads:
    """Read the open heads of up to one query's worth of branches that are all read back, or all not.

    `before_query` is called before each query but the first.
    """
    read_back = branches[0].read_back
    results = client.open_heads(
        [BranchRef(branch.repository_node_id, branch.name) for branch in branches],
        read_back_app_id=app_id if read_back else None,
        between=before_query,
    )
    return list(zip(branches, results, strict=True))


def gather_heads(fetched: Iterable[tuple[LeasedBranch, BranchHeads]]) -> dict[HeadKey, Head]:
    """Return the heads of these branches, each with its merge paths."""
    heads: dict[HeadKey, Head] = {}
    for branch, found in fetched:
        for pull in found.pulls:
            _add(heads, branch, pull.head_sha, rank_of(pull), _path(branch, (pull.number,)), pull.checks)
        entries = sorted(found.queue, key=lambda entry: entry.position)
        numbers = [entry.pull_number for entry in entries]
        # From back to front: GitHub restarts what stands behind an entry that fails.
        for place in range(len(entries) - 1, -1, -1):
            entry = entries[place]
            if entry.head_sha is not None:
                path = _path(branch, _members(numbers[: place + 1]), queued=True)
                _add(heads, branch, entry.head_sha, GROUP, path, entry.checks)
    return heads


def rank_of(pull: PullHead) -> int:
    """Return how soon a pull request could be merged."""
    return merge_rank(
        draft=pull.draft,
        auto_merge=pull.auto_merge,
        review_decision=pull.review_decision,
        in_queue=pull.in_queue,
    )


def _path(branch: LeasedBranch, numbers: tuple[int, ...] | None, *, queued: bool = False) -> MergePath:
    return MergePath(branch.id, branch.name, numbers, queued)


def _members(numbers: Sequence[int | None]) -> tuple[int, ...] | None:
    known = tuple(number for number in numbers if number is not None)
    return known if len(known) == len(numbers) else None


def _add(
    heads: dict[HeadKey, Head],
    branch: LeasedBranch,
    sha: str,
    rank: int,
    path: MergePath,
    checks: Sequence[CheckState],
) -> None:
    for check_name in branch.check_names:
        key = HeadKey(branch.repository_id, check_name, sha)
        head = heads.get(key)
        if head is None:
            head = heads[key] = Head(key, branch.repository_node_id, branch.id, branch.organization_id, rank)
        head.rank = min(head.rank, rank)
        head.paths.append(path)
        if branch.read_back:
            head.read_back = True
            head.remote_check = next((check for check in checks if check.name == check_name), head.remote_check)
