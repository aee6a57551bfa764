"""The records of the simulated GitHub, as they are persisted.

Times are RFC 3339 strings in UTC with whole seconds, as the API shows them. Identifiers are GitHub's: an integer
database id and an opaque node id. Everything that can be derived (who is open into which base, which run is newest)
is an index of the `World`, not a field here.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Account:
    """A person, an organisation, or the bot of an App."""

    id: int
    node_id: str
    login: str
    type: str  # User | Organization | Bot
    token: str | None = None  # a person's access token
    created_at: str = ""
    administrators_rename: bool = False
    """Of an organisation: administrators of repositories may rename branches that its rulesets target."""


@dataclass(slots=True)
class Commit:
    """A commit with the files it changed (path to base64 content; None deletes)."""

    sha: str
    parents: list[str]
    message: str
    author_id: int
    date: str
    files: dict[str, str | None] = field(default_factory=dict)
    committer_id: int | None = None  # None: the author
    verified: bool = False  # whether GitHub has verified a signature of the committer
    known: bool = True  # whether accounts have the addresses of author and committer


@dataclass(slots=True)
class Label:
    """A label of a repository."""

    id: int
    node_id: str
    name: str
    created_at: str
    updated_at: str


@dataclass(slots=True)
class TimelineItem:
    """Something that happened to a pull request: the name of its type in the graph, and what that shows."""

    id: int
    node_id: str
    kind: str  # one of `timeline_fields.ITEM_TYPES`
    actor_id: int
    created_at: str
    label_id: str | None = None
    before: str | None = None  # the base branch
    after: str | None = None


@dataclass(slots=True)
class AutoMerge:
    """A request to merge a pull request as soon as nothing blocks it."""

    enabled_at: str
    enabled_by_id: int
    merge_method: str  # merge | squash | rebase
    commit_title: str = ""
    commit_message: str = ""


@dataclass(slots=True)
class Review:
    """What a person says about a pull request."""

    id: int
    node_id: str
    author_id: int
    state: str  # APPROVED | CHANGES_REQUESTED | COMMENTED | DISMISSED
    body: str
    commit_id: str
    submitted_at: str


@dataclass(slots=True)
class PullRequest:
    """A pull request between two branches of one repository."""

    id: int
    node_id: str
    repository_id: int
    number: int
    title: str
    author_id: int
    head_ref: str
    head_sha: str
    base_ref: str
    base_sha: str
    created_at: str
    updated_at: str
    body: str | None = None
    state: str = "open"  # open | closed
    draft: bool = False
    closed_at: str | None = None
    merged_at: str | None = None
    merged_by_id: int | None = None
    merge_commit_sha: str | None = None
    auto_merge: AutoMerge | None = None
    review_decision: str | None = None  # APPROVED | CHANGES_REQUESTED | REVIEW_REQUIRED
    mergeable: bool | None = True
    reviews: list[Review] = field(default_factory=list)
    label_ids: list[int] = field(default_factory=list)
    timeline: list[TimelineItem] = field(default_factory=list)
    fork_id: int | None = None  # the repository of its head; None: its own


@dataclass(slots=True)
class CheckSuite:
    """All check runs of one App on one commit."""

    id: int
    node_id: str
    repository_id: int
    app_id: int
    head_sha: str
    head_branch: str | None
    created_at: str
    updated_at: str


@dataclass(slots=True)
class CheckRun:
    """One report of an App under a name on a commit."""

    id: int
    node_id: str
    repository_id: int
    suite_id: int
    app_id: int
    name: str
    head_sha: str
    status: str  # queued | in_progress | completed
    conclusion: str | None
    started_at: str | None
    completed_at: str | None
    external_id: str | None = None
    details_url: str | None = None
    output: dict[str, Any] = field(default_factory=dict)
    actions: list[dict[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class QueueEntry:
    """A pull request waiting in the merge queue of its base branch."""

    id: int
    node_id: str
    repository_id: int
    base_ref: str
    number: int
    enqueuer_id: int
    enqueued_at: str
    state: str = "QUEUED"  # QUEUED | AWAITING_CHECKS | MERGEABLE | UNMERGEABLE | LOCKED
    jump: bool = False
    head_sha: str | None = None  # the commit of its merge group
    head_ref: str | None = None  # gh-readonly-queue/...
    base_sha: str | None = None


@dataclass(slots=True)
class Activity:
    """A change of where a branch points, as in the repository's activity."""

    id: int
    node_id: str
    branch: str
    before: str
    after: str
    timestamp: str
    how: str  # push | force_push | branch_creation | branch_deletion | pr_merge | merge_queue_merge
    actor_id: int


@dataclass(slots=True)
class Repository:
    """A repository with its branches, commits and pull requests."""

    id: int
    node_id: str
    owner_id: int
    name: str
    created_at: str
    updated_at: str
    pushed_at: str
    default_branch: str = "main"
    private: bool = True
    archived: bool = False
    description: str | None = None
    allow_auto_merge: bool = True
    delete_branch_on_merge: bool = False
    next_number: int = 1
    branches: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    pulls: dict[int, PullRequest] = field(default_factory=dict)
    activities: list[Activity] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)


@dataclass(slots=True)
class Ruleset:
    """A set of rules of one repository or of an organisation."""

    id: int
    node_id: str
    source_type: str  # Repository | Organization
    source_id: int
    name: str
    enforcement: str  # active | evaluate | disabled
    created_at: str
    updated_at: str
    target: str = "branch"
    conditions: dict[str, Any] = field(default_factory=dict)
    rules: list[dict[str, Any]] = field(default_factory=list)
    bypass_actors: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class BranchProtection:
    """Classic protection of one branch; each check is `{context, app_id}`."""

    id: int
    node_id: str
    repository_id: int
    branch: str
    created_at: str
    updated_at: str
    requires_checks: bool = False
    strict: bool = False
    checks: list[dict[str, Any]] = field(default_factory=list)
    enforce_admins: bool = False
    locked: bool = False


@dataclass(slots=True)
class Installation:
    """The App's place in one account."""

    id: int
    account_id: int
    app_id: int
    created_at: str
    updated_at: str
    permissions: dict[str, str]
    events: list[str]
    repository_selection: str = "all"  # all | selected
    repository_ids: list[int] = field(default_factory=list)
    suspended_at: str | None = None


@dataclass(slots=True)
class App:
    """A GitHub App registered at GitHub."""

    id: int
    node_id: str
    slug: str
    name: str
    owner_id: int
    bot_id: int
    created_at: str
    public_key: str | None = None
    further_public_keys: list[str] = field(default_factory=list)
    """GitHub accepts the tokens of each of an App's keys, so that one can replace another."""
    permissions: dict[str, str] | None = None
    events: list[str] | None = None
    """What its manifest said; None: what the simulation gives to every App."""
