"""Frozen values read from GitHub and written to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from integrations.github.errors import GitHubError


@dataclass(frozen=True, slots=True)
class InstallationInfo:
    """One installation of the App in an account."""

    id: int
    account_login: str
    account_type: str
    """`Organization`, `User` or `Enterprise`."""
    account_id: int
    repository_selection: str
    """`all` or `selected`."""
    permissions: Mapping[str, str]
    suspended_at: datetime | None


@dataclass(frozen=True, slots=True)
class RepositoryInfo:
    """A repository with its present name; `github_id` and `node_id` survive renames and transfers."""

    github_id: int
    node_id: str
    owner: str
    name: str
    default_branch: str
    private: bool
    archived: bool


@dataclass(frozen=True, slots=True)
class BranchInfo:
    """A branch and the commit it points at."""

    name: str
    protected: bool
    sha: str


@dataclass(frozen=True, slots=True)
class BranchRef:
    """Reference to a branch: the repository's node id and the branch's short name (`main`, `release/9`)."""

    repository_node_id: str
    name: str


@dataclass(frozen=True, slots=True)
class CheckState:
    """One check run as GitHub has it; `status` and `conclusion` in lower case."""

    id: int
    name: str
    status: str
    conclusion: str | None
    external_id: str | None
    app_id: int | None = None
    completed_at: datetime | None = None
    """GitHub's clock, in whole seconds; None if it was not read, or the run is not completed."""


@dataclass(frozen=True, slots=True)
class PullHead:
    """An open pull request into a branch."""

    number: int
    node_id: str
    title: str
    url: str
    author: str | None
    head_sha: str
    draft: bool
    auto_merge: bool
    review_decision: str | None
    """`approved`, `changes_requested`, `review_required`, or None if no review is required."""
    in_queue: bool
    updated_at: datetime
    """GitHub's clock, in whole seconds."""
    checks: tuple[CheckState, ...] = ()
    """When read back: the newest run of each name that this App has on `head_sha`."""


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A member of the merge queue, by position from 1 (the front)."""

    position: int
    pull_number: int | None
    """None if GitHub does not return it: callers must then assume the worst case."""
    head_sha: str | None
    """The queue's own commit for this entry; None before GitHub has built it."""
    checks: tuple[CheckState, ...] = ()


@dataclass(frozen=True, slots=True)
class BranchHeads:
    """Everything that may be merged into one branch now, or the error if it could not be read."""

    repository_node_id: str
    name: str
    repository: RepositoryInfo | None
    """None if the repository does not exist or is not visible."""
    pulls: tuple[PullHead, ...] = ()
    queue: tuple[QueueEntry, ...] = ()
    error: GitHubError | None = None
    """Set if the pull requests could not be read completely: missing ones may exist."""
    queue_error: GitHubError | None = None
    """Set if only the merge queue could not be read; the pull requests are complete."""
    sha: str | None = None
    """The branch's own commit; None while the branch does not exist."""


@dataclass(frozen=True, slots=True)
class RepositoryTips:
    """A repository with its branches, or the error if they could not be read."""

    repository_node_id: str
    repository: RepositoryInfo | None
    """None if the repository does not exist or is not visible."""
    branches: Mapping[str, str] = field(default_factory=dict)
    """The commit of each branch, by short name."""
    error: GitHubError | None = None
    """Set if they could not be read completely: missing branches may exist."""


@dataclass(frozen=True, slots=True)
class CheckAction:
    """A button of a completed check run; GitHub accepts 20 characters of label and identifier, 40 of description."""

    label: str
    description: str
    identifier: str


@dataclass(frozen=True, slots=True)
class CheckWrite:
    """One completed check run to create."""

    repository_node_id: str
    name: str
    head_sha: str
    conclusion: Literal["success", "failure"]
    title: str
    summary: str
    external_id: str
    details_url: str | None = None
    actions: tuple[CheckAction, ...] = ()
    """At most three."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one `CheckWrite`: an id or an error."""

    check_run_id: int | None
    error: GitHubError | None = field(default=None)


def parse_instant(value: Any) -> datetime | None:
    """Parse an RFC 3339 time; return None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None


def installation_from_rest(payload: Mapping[str, Any]) -> InstallationInfo:
    """Parse an installation object of the REST API."""
    account = payload.get("account") or {}
    return InstallationInfo(
        id=int(payload["id"]),
        account_login=str(account.get("login") or account.get("slug") or ""),
        account_type=str(account.get("type") or payload.get("target_type") or ""),
        account_id=int(account.get("id") or payload.get("target_id") or 0),
        repository_selection=str(payload.get("repository_selection") or "selected"),
        permissions={str(name): str(level) for name, level in (payload.get("permissions") or {}).items()},
        suspended_at=parse_instant(payload.get("suspended_at")),
    )


def repository_from_rest(payload: Mapping[str, Any]) -> RepositoryInfo:
    """Parse a repository object of the REST API (full or minimal)."""
    return RepositoryInfo(
        github_id=int(payload["id"]),
        node_id=str(payload["node_id"]),
        owner=str(payload["owner"]["login"]),
        name=str(payload["name"]),
        default_branch=str(payload.get("default_branch") or "main"),
        private=bool(payload.get("private")),
        archived=bool(payload.get("archived")),
    )


def branch_from_rest(payload: Mapping[str, Any]) -> BranchInfo:
    """Parse a short branch object of the REST API."""
    return BranchInfo(str(payload["name"]), bool(payload.get("protected")), str(payload["commit"]["sha"]))


def check_from_rest(payload: Mapping[str, Any]) -> CheckState:
    """Parse a check run of the REST API."""
    return CheckState(
        id=int(payload["id"]),
        name=str(payload["name"]),
        status=str(payload["status"]),
        conclusion=payload.get("conclusion"),
        external_id=payload.get("external_id"),
        app_id=(payload.get("app") or {}).get("id"),
        completed_at=parse_instant(payload.get("completed_at")),
    )
