"""Heads: commits that could be merged into watched branches, and every way in which each of them could.

A check belongs to a commit and a name, not to a pull request. So all pull requests and queue places that share both
are gathered here, also those into sibling branches under the same name, and judged together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from integrations.github import BranchHeads, CheckState
from rules.freezes.merge_rank import GROUP
from services.reconcile.claims import ClaimedBranch
from services.reconcile.looking import rank_of


@dataclass(frozen=True, slots=True)
class HeadKey:
    """What a check is written on."""

    repository_id: str
    check_name: str
    sha: str


@dataclass(frozen=True, slots=True)
class Way:
    """One way a head could take into a branch: a pull request, or a place in its merge queue.

    `numbers` are all pull requests that would land with it; None: the code host does not say. A place in the queue has
    a commit of its own, which is no pull request's head.
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
    """The claimed branch on whose account it is written."""
    organization_id: str
    rank: int
    ways: list[Way] = field(default_factory=list)
    shown: CheckState | None = None
    """What the code host showed, if it was read back."""
    read_back: bool = False


def gather(pairs: Iterable[tuple[ClaimedBranch, BranchHeads]]) -> dict[HeadKey, Head]:
    """Return the heads of the claimed branches that could be read."""
    heads: dict[HeadKey, Head] = {}
    for branch, seen in pairs:
        for pull in seen.pulls:
            _add(heads, branch, pull.head_sha, rank_of(pull), _way(branch, (pull.number,)), pull.checks)
        entries = sorted(seen.queue, key=lambda entry: entry.position)
        numbers = [entry.pull_number for entry in entries]
        # From back to front: the code host restarts what stands behind an entry that fails.
        for place in range(len(entries) - 1, -1, -1):
            entry = entries[place]
            if entry.head_sha is not None:
                way = _way(branch, _members(numbers[: place + 1]), queued=True)
                _add(heads, branch, entry.head_sha, GROUP, way, entry.checks)
    return heads


def _way(branch: ClaimedBranch, numbers: tuple[int, ...] | None, *, queued: bool = False) -> Way:
    return Way(branch.id, branch.name, numbers, queued)


def _members(numbers: Sequence[int | None]) -> tuple[int, ...] | None:
    known = tuple(number for number in numbers if number is not None)
    return known if len(known) == len(numbers) else None


def _add(
    heads: dict[HeadKey, Head],
    branch: ClaimedBranch,
    sha: str,
    rank: int,
    way: Way,
    checks: Sequence[CheckState],
) -> None:
    key = HeadKey(branch.repository_id, branch.check_name, sha)
    head = heads.get(key)
    if head is None:
        head = heads[key] = Head(key, branch.repository_node_id, branch.id, branch.organization_id, rank)
    head.rank = min(head.rank, rank)
    head.ways.append(way)
    if branch.read_back:
        head.read_back = True
        head.shown = next((check for check in checks if check.name == branch.check_name), head.shown)
