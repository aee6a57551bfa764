"""What landed on branches, and by which pull request: GitHub's own record, with its own times.

Sources: "List repository activities" (`GET /repos/{owner}/{repo}/activity`, contents:read) and "List pull requests
associated with a commit" (`GET /repos/{owner}/{repo}/commits/{sha}/pulls`, pull_requests:read).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from integrations.github.answers import read_list
from integrations.github.calls import Calls, path


@dataclass(frozen=True, slots=True)
class Activity:
    """One change of where a branch points: of any number of commits, by one act of one actor."""

    before: str
    """All zeros for a branch that was created."""
    after: str
    """All zeros for a branch that was deleted."""
    instant: datetime
    """In whole seconds."""
    how: str
    """`push`, `force_push`, `branch_creation`, `branch_deletion`, `pr_merge` or `merge_queue_merge`."""
    actor: str | None
    """The login; None for an account that was deleted."""


@dataclass(frozen=True, slots=True)
class PullOfCommit:
    """A pull request that brought a commit to a branch, or would."""

    number: int
    base_ref: str
    head_sha: str
    merged_at: datetime | None


def list_activity(calls: Calls, owner: str, name: str, branch: str, since: datetime) -> list[Activity]:
    """Return what happened to a branch at `since` or later, the newest first; see `InstallationClient.activity`."""
    found: list[Activity] = []
    for answer in calls.get_pages(path("repos", owner, name, "activity"), ref=f"refs/heads/{branch}"):
        page = [_activity(entry) for entry in read_list(answer)]
        found += [each for each in page if each.instant >= since]
        if page and page[-1].instant < since:
            break
    return found


def list_pulls_of_commit(calls: Calls, owner: str, name: str, sha: str) -> list[PullOfCommit]:
    """Return the pull requests of a commit; see `InstallationClient.pulls_of_commit`."""
    return [_pull(entry) for entry in calls.get_lists(path("repos", owner, name, "commits", sha, "pulls"))]


def _activity(entry: Mapping[str, Any]) -> Activity:
    return Activity(
        before=str(entry["before"]),
        after=str(entry["after"]),
        instant=datetime.fromisoformat(entry["timestamp"]),
        how=str(entry["activity_type"]),
        actor=str(entry["actor"]["login"]) if entry["actor"] else None,
    )


def _pull(entry: Mapping[str, Any]) -> PullOfCommit:
    merged_at = entry["merged_at"]
    return PullOfCommit(
        number=int(entry["number"]),
        base_ref=str(entry["base"]["ref"]),
        head_sha=str(entry["head"]["sha"]),
        merged_at=datetime.fromisoformat(merged_at) if merged_at else None,
    )
