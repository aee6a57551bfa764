"""The world: every record, and the indexes that make each look-up a dictionary access.

One thread at a time may use it (`lock`); the HTTP side runs on one event loop and takes the lock for the length of
one request. Changes announce themselves as `Event`s to the listeners, while the lock is held.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tools.fake_github.model.identifiers import node_id, split_commit_node_id, timestamp
from tools.fake_github.model.records import (
    Account,
    App,
    BranchProtection,
    CheckRun,
    CheckSuite,
    Installation,
    PullRequest,
    QueueEntry,
    Repository,
    Ruleset,
)
from tools.fake_github.model.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Standing:
    """What somebody may do in a repository, of whom nothing else is known."""

    level: str  # one of `roles.LEVELS`
    owner: bool = False  # of the organisation


@dataclass(frozen=True, slots=True)
class Actor:
    """Who does something: an account, and the App and installation it acts through, if any.

    `standing` replaces what the account itself may do. Without `bypassing`, no bypass list and no exemption of
    administrators counts for the actor: so GitHub merges for those who armed auto-merge, and so a caller learns whether
    something is accepted only because of them. Who `bypasses_organization` passes all its rulesets.
    """

    account: Account
    app_id: int | None = None
    installation: Installation | None = None
    standing: Standing | None = None
    bypassing: bool = True
    bypasses_organization: bool = False


@dataclass(slots=True)
class Event:
    """Something that happened: the name and action of its webhook and the records it is about."""

    name: str
    action: str | None
    sender: Account
    repository: Repository | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def system_clock() -> datetime:
    """Return the present in UTC."""
    return datetime.now(UTC)


class World:
    """All accounts, repositories, checks, rules and installations of GitHub."""

    def __init__(self, clock: Callable[[], datetime] = system_clock) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.listeners: list[Callable[[Event], None]] = []
        self.ruleset_delay: Callable[[Repository], float] = lambda _: 0.0
        """After how many seconds a changed ruleset is enforced in a repository."""
        self.changes = 0
        """How often something changed; it never decreases, so that a change is never taken for what was saved."""
        self.clear()

    def clear(self) -> None:
        """Delete everything."""
        self.last_id = 1000
        self.accounts: dict[int, Account] = {}
        self.logins: dict[str, Account] = {}
        self.tokens: dict[str, Account] = {}
        self.apps: dict[int, App] = {}
        self.repositories: dict[int, Repository] = {}
        self.full_names: dict[str, Repository] = {}
        self.rights: dict[str, dict[str, str]] = {}
        """Login → account or `owner/name`, in lower case → level; an account's `admin` is its owner."""
        self.teams: dict[int, list[str]] = {}  # a team's id to the logins of its members, in lower case
        self.team_slugs: dict[str, int] = {}  # `organisation/slug`, in lower case, to the team's id
        self.moved: dict[str, int] = {}  # an old full name, in lower case, to the repository's id
        self.owned: dict[int, dict[int, Repository]] = defaultdict(dict)
        self.rulesets: dict[int, Ruleset] = {}
        self.rules_of: dict[tuple[str, int], dict[int, Ruleset]] = defaultdict(dict)
        self.ruleset_changes: list[tuple[datetime, int, Ruleset | None]] = []
        """The latest changes: when, the ruleset's id, and the ruleset as it was before; None: it was not there."""
        self.rules_version = 0
        self.rules_cached_at = 0
        self.rules_cache: dict[tuple[int, str], list[tuple[Ruleset, dict[str, Any]]]] = {}
        self.protections: dict[tuple[int, str], BranchProtection] = {}
        self.installations: dict[int, Installation] = {}
        self.installed: dict[int, Installation] = {}  # by account id
        self.nodes: dict[str, Any] = {}
        self.open_into: dict[tuple[int, str], dict[int, PullRequest]] = defaultdict(dict)
        self.open_from: dict[tuple[int, str], dict[int, PullRequest]] = defaultdict(dict)
        self.open_at: dict[tuple[int, str], dict[int, PullRequest]] = defaultdict(dict)
        self.suites: dict[int, CheckSuite] = {}
        self.suites_on: dict[tuple[int, str], dict[int, CheckSuite]] = defaultdict(dict)
        self.runs: dict[int, CheckRun] = {}
        self.runs_in: dict[int, list[CheckRun]] = defaultdict(list)
        self.newest: dict[tuple[int, str, int, str], CheckRun] = {}
        self.queues: dict[tuple[int, str], list[QueueEntry]] = {}
        self.groups: dict[tuple[int, str], QueueEntry] = {}  # by the head commit of the merge group
        self.changes += 1

    def now(self) -> str:
        """Return the present as the API writes it."""
        return timestamp(self.clock())

    def next_id(self) -> int:
        """Return a new database id; ids grow, so a higher one is newer."""
        self.last_id += 1
        return self.last_id

    def emit(self, event: Event) -> None:
        """Announce a change."""
        self.changes += 1
        for listener in self.listeners:
            listener(event)

    # --- look-ups -------------------------------------------------------------------------------------------------

    def owner(self, repository: Repository) -> Account:
        """Return the account that owns the repository."""
        return self.accounts[repository.owner_id]

    def full_name(self, repository: Repository) -> str:
        """`owner/name`."""
        return f"{self.accounts[repository.owner_id].login}/{repository.name}"

    def find_repository(self, full_name: str) -> Repository | None:
        """Look a repository up by its present name, without regard to case."""
        return self.full_names.get(full_name.lower())

    def repository_named(self, full_name: str) -> Repository:
        """Look a repository up that must exist."""
        found = self.find_repository(full_name)
        if found is None:
            raise Refusal(404, "Not Found")
        return found

    def find_node(self, identifier: str) -> Any:
        """Return the record of a node id; a `(repository, sha)` pair for a commit; None when there is none."""
        found = self.nodes.get(identifier)
        if found is None and (parts := split_commit_node_id(identifier)):
            repository = self.repositories.get(parts[0])
            if repository is not None and parts[1] in repository.commits:
                return repository, parts[1]
        return found

    def newest_run(self, repository_id: int, sha: str, name: str, app_id: int | None) -> CheckRun | None:
        """Return the run that counts for a name on a commit: of one App, or the newest of any App."""
        if app_id is not None:
            return self.newest.get((repository_id, sha, app_id, name))
        suites = self.suites_on.get((repository_id, sha), {})
        found = [run for app in suites if (run := self.newest.get((repository_id, sha, app, name)))]
        return max(found, key=lambda run: run.id, default=None)

    def head_of(self, pull: PullRequest) -> tuple[int, str]:
        """Return the repository and the branch that a pull request's head is in."""
        return pull.fork_id or pull.repository_id, pull.head_ref

    def head_repository(self, pull: PullRequest) -> Repository | None:
        """Return the repository that a pull request's head is in; None if it was a fork that is gone."""
        return self.repositories.get(self.head_of(pull)[0])

    def queue_entry(self, pull: PullRequest) -> QueueEntry | None:
        """Return the pull request's place in the merge queue of its base."""
        queue = self.queues.get((pull.repository_id, pull.base_ref), ())
        return next((entry for entry in queue if entry.number == pull.number), None)

    # --- keeping the indexes --------------------------------------------------------------------------------------

    def add_account(self, login: str, kind: str, token: str | None = None) -> Account:
        """Create an account, or return the one of that login (with the token added)."""
        account = self.logins.get(login.lower())
        if account is None:
            number = self.next_id()
            prefix = {"Organization": "O", "Bot": "BOT"}.get(kind, "U")
            account = Account(number, node_id(prefix, number), login, kind, created_at=self.now())
            self.index_account(account)
        if token:
            account.token = token
            self.tokens[token] = account
        self.changes += 1
        return account

    def index_account(self, account: Account) -> None:
        """Make an account findable."""
        self.accounts[account.id] = account
        self.logins[account.login.lower()] = account
        self.nodes[account.node_id] = account
        if account.token:
            self.tokens[account.token] = account

    def index_repository(self, repository: Repository) -> None:
        """Make a repository and its open pull requests findable."""
        self.repositories[repository.id] = repository
        self.full_names[self.full_name(repository).lower()] = repository
        self.owned[repository.owner_id][repository.id] = repository
        self.nodes[repository.node_id] = repository
        for pull in repository.pulls.values():
            self.index_pull(pull)

    def index_pull(self, pull: PullRequest) -> None:
        """Make a pull request findable, by its branches while it is open."""
        self.nodes[pull.node_id] = pull
        if pull.state == "open":
            self.open_into[pull.repository_id, pull.base_ref][pull.number] = pull
            self.open_from[self.head_of(pull)][pull.number] = pull
            self.open_at[pull.repository_id, pull.head_sha][pull.number] = pull

    def unindex_pull(self, pull: PullRequest) -> None:
        """Take a pull request out of the open ones, before its state, head or base changes."""
        self.open_into[pull.repository_id, pull.base_ref].pop(pull.number, None)
        self.open_from[self.head_of(pull)].pop(pull.number, None)
        self.open_at[pull.repository_id, pull.head_sha].pop(pull.number, None)

    def index_suite(self, suite: CheckSuite) -> None:
        """Make a check suite findable."""
        self.suites[suite.id] = suite
        self.nodes[suite.node_id] = suite
        self.suites_on[suite.repository_id, suite.head_sha][suite.app_id] = suite

    def index_run(self, run: CheckRun) -> None:
        """Make a check run findable; ids grow, so the last one indexed of a name is the newest."""
        self.runs[run.id] = run
        self.nodes[run.node_id] = run
        self.runs_in[run.suite_id].append(run)
        self.newest[run.repository_id, run.head_sha, run.app_id, run.name] = run

    def index_ruleset(self, ruleset: Ruleset) -> None:
        """Make a ruleset findable, and let cached rules be forgotten."""
        self.rulesets[ruleset.id] = ruleset
        self.rules_of[ruleset.source_type, ruleset.source_id][ruleset.id] = ruleset
        self.nodes[ruleset.node_id] = ruleset
        self.rules_version += 1

    def index_protection(self, protection: BranchProtection) -> None:
        """Make a classic protection findable by its branch."""
        self.protections[protection.repository_id, protection.branch] = protection

    def index_installation(self, installation: Installation) -> None:
        """Make an installation findable by id and by account."""
        self.installations[installation.id] = installation
        self.installed[installation.account_id] = installation

    def index_queue(self, entries: Iterable[QueueEntry]) -> None:
        """Put entries at the end of their queues."""
        for entry in entries:
            self.queues.setdefault((entry.repository_id, entry.base_ref), []).append(entry)
            self.nodes[entry.node_id] = entry
            if entry.head_sha:
                self.groups[entry.repository_id, entry.head_sha] = entry
