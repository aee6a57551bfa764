"""The history of branches and the pull requests of commits, as GitHub records them, with its timestamps.

Sources: "List repository activities" (`GET /repos/{owner}/{repo}/activity`, contents:read) and "List pull requests
associated with a commit" (`GET /repos/{owner}/{repo}/commits/{sha}/pulls`, pull_requests:read).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from integrations.github.calls import Calls, path
from integrations.github.responses import read_list


@dataclass(frozen=True, slots=True)
class Activity:
    """One update of a branch by one actor, with any number of commits."""

    before: str
    """All zeros for a branch that was created."""
    after: str
    """All zeros for a branch that was deleted."""
    instant: datetime
    """In whole seconds."""
    how: str
    """`push`, `force_push`, `branch_creation`, `branch_deletion`, `pr_merge` or `merge_queue_merge`."""
    actor: str | None
    """The login; None if the account was deleted."""


@dataclass(frozen=True, slots=True)
class PullOfCommit:
    """A pull request that contains a commit, merged or open."""

    number: int
    base_ref: str
    head_sha: str
    merged_at: datetime | None


def list_activity(calls: Calls, owner: str, name: str, branch: str, since: datetime) -> list[Activity]:
    """Return the activities of a branch at `since` or later, newest first; see `InstallationClient.activity`."""
    found: list[Activity] = []
    for response in calls.get_pages(path("repos", owner, name, "activity"), ref=f"refs/heads/{branch}"):
        page = [_activity(entry) for entry in read_list(response)]
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
