"""The facts of a pull request that rules of exceptions read, as GitHub has them for one head of it.

Accounts and teams are compared by GitHub's ids: names can be taken over by others. A fact that could not be read, or
not as a whole, is `Unknown`, and meets no condition. What takes a call for each pull request is read last, and only
where a rule depends on it: until then commits and pushers are None, and the files may be incomplete.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

MAX_FILES = 3000
"""GitHub lists no more files of a pull request."""
MAX_COMMITS = 250
"""GitHub lists no more commits of a pull request."""
MAX_PUSHES = 300
"""So many pushes to the branch of a head are looked through, a call for each hundred."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that is not known, and why, in words that follow "it is not known": "GitHub lists 3,000 files only"."""

    why: str


@dataclass(frozen=True, slots=True)
class GitHubAccount:
    """A person or a bot at GitHub."""

    id: int
    login: str
    """For people; a bot's ends in `[bot]`."""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file of the diff; a renamed one has both names."""

    path: str
    previous_path: str | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """Every name that the diff changes."""
        return (self.path,) if self.previous_path is None else (self.path, self.previous_path)


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """The files of the diff."""

    listed: tuple[ChangedFile, ...]
    complete: bool
    """False if there are more, or if the former name of one of them is not read yet."""


@dataclass(frozen=True, slots=True)
class Label:
    """A label that the pull request has, and who set it last."""

    name: str
    set_by: GitHubAccount | None
    """None: GitHub does not say, such as of an account that is gone."""
    set_at: datetime | None
    changed_at: datetime | None = None
    """When the label itself was last changed, such as renamed; None: it was not, since it was made."""


@dataclass(frozen=True, slots=True)
class Approval:
    """The last review of an account that approves or rejects; one that was dismissed is none."""

    by: GitHubAccount
    commit: str
    submitted_at: datetime


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of the pull request: the accounts that GitHub resolved, and whose signature it verified."""

    sha: str
    author_id: int | None
    """None: no account has the author's address."""
    committer_id: int | None
    signed_by: int | None
    """The account of a signature that GitHub verified. For a commit that GitHub made and signed: its author's."""
    by_github: bool = False
    """Whether GitHub itself is the committer, as of what is done on its pages and by Apps."""


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """What GitHub shows of a pull request, all of one head and one base."""

    number: int
    head_sha: str
    base: str
    updated_at: datetime
    """When GitHub says that it last changed, in whole seconds."""
    author: GitHubAccount | Unknown
    same_repository: bool
    """Whether the head is a branch of the repository itself; False also if the fork is gone."""
    head_branch: str
    """The branch of the head, in the repository or the fork."""
    changed_lines: int
    """Added and removed lines."""
    changed_files: int
    """How many files GitHub counts, a rename as one."""
    files: ChangedFiles | Unknown
    labels: tuple[Label, ...] | Unknown
    approvals: tuple[Approval, ...] | Unknown
    commits: tuple[Commit, ...] | Unknown | None = None
    """None: not read yet."""
    pushed_by: frozenset[int] | Unknown | None = None
    """The accounts that pushed to the head branch since it was made; None: not read yet. Of a fork nobody: an App that
    is not installed there may see only who force-pushed."""
    forced_by: frozenset[int] = frozenset()
    """The accounts that force-pushed the head branch."""
    changed_at: datetime | None = None
    """When the head was last force-pushed, or the base changed: GitHub's time. None: never, as far as listed."""


TeamMembers = Mapping[int, frozenset[int] | Unknown]
"""The ids of the members of teams, by the team's id."""
