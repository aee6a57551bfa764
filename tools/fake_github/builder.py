"""A fluent factory for tests: `github.organization("acme").repository("web").pull_request(base="main")`.

Everything built this way happens silently, without webhooks; what people do is done over HTTP, or by the model's
functions.
"""

from typing import Any

from tools.fake_github.core import Core
from tools.fake_github.model.installations import install
from tools.fake_github.model.records import Account, Installation, PullRequest, Repository
from tools.fake_github.model.repositories import add_repository
from tools.fake_github.model.roles import give
from tools.fake_github.model.rulesets import create_ruleset
from tools.fake_github.model.teams import set_members
from tools.fake_github.model.world import Actor
from tools.fake_github.seeding import add_pull_request, require_check, require_queue


class RepositoryBuilder:
    """A repository under construction; `record` is the repository."""

    def __init__(self, github: Core, record: Repository) -> None:
        self.github, self.record = github, record

    @property
    def full_name(self) -> str:
        """`owner/name`."""
        return self.github.world.full_name(self.record)

    def branch(self, name: str) -> "RepositoryBuilder":
        """Add a branch at the tip of the default branch."""
        with self.github.quietly():
            self.record.branches.setdefault(name, self.record.branches[self.record.default_branch])
        return self

    def pull_request(self, base: str | None = None, **details: Any) -> PullRequest:
        """Open a pull request; details as in a seed document (head, title, draft, sharesHeadWith, checks, ...)."""
        with self.github.quietly():
            return add_pull_request(self.github, self.record, {"base": base, **details})

    def requires(self, context: str, branch: str | None = None) -> "RepositoryBuilder":
        """Require a check of the App on a branch, by default the default branch."""
        with self.github.quietly():
            require_check(self.github, self.record, branch or self.record.default_branch, context)
        return self

    def merge_queue(self, branch: str | None = None, strategy: str = "ALLGREEN") -> "RepositoryBuilder":
        """Put a merge queue before a branch, by default the default branch."""
        with self.github.quietly():
            require_queue(self.github, self.record, branch or self.record.default_branch, strategy)
        return self

    def person(self, login: str, role: str) -> Account:
        """Give a person a role here: read, triage, write, maintain or admin; they have no others but those given."""
        return give(self.github.world, login, self.full_name, role)

    def ruleset(self, **body: Any) -> "RepositoryBuilder":
        """Add a ruleset, given as GitHub's JSON."""
        with self.github.quietly():
            create_ruleset(self.github.world, Actor(self.github.maintainer), "Repository", self.record.id, body)
        return self


class OrganizationBuilder:
    """An organisation under construction; `account` is its record."""

    def __init__(self, github: Core, account: Account) -> None:
        self.github, self.account = github, account

    def owner(self, login: str) -> Account:
        """Make a person an owner of this organisation, and of others only if they are made so too."""
        return give(self.github.world, login, self.account.login, "admin")

    def team(self, number: int, *logins: str) -> "OrganizationBuilder":
        """Add a team with these members; a team has no role of its own."""
        world = self.github.world
        world.teams[number] = [world.add_account(login, "User").login.lower() for login in logins]
        return self

    def team_named(self, slug: str, *logins: str) -> int:
        """Give a team these members, and make it if it is not there; return its id."""
        with self.github.world.lock:
            return set_members(self.github.world, Actor(self.github.maintainer), self.account, slug, list(logins))

    def repository(self, name: str, default_branch: str = "main", branches: tuple[str, ...] = ()) -> RepositoryBuilder:
        """Add a repository, or go on with the one of that name."""
        with self.github.quietly():
            found = self.github.world.find_repository(f"{self.account.login}/{name}")
            record = found or add_repository(
                self.github.world, self.account, name, self.github.maintainer.id, default_branch, branches
            )
        return RepositoryBuilder(self.github, record)

    def installed(
        self,
        repositories: list[str] | None = None,
        permissions: dict[str, str] | None = None,
        installation_id: int | None = None,
    ) -> Installation:
        """Install the App here, on all repositories or on those named."""
        world = self.github.world
        with self.github.quietly():
            names = None if repositories is None else [f"{self.account.login}/{name}" for name in repositories]
            chosen = None if names is None else [world.repository_named(name) for name in names]
            actor = Actor(self.github.maintainer)
            return install(
                world,
                actor,
                self.github.app,
                self.account,
                chosen,
                permissions=permissions,
                installation_id=installation_id,
            )

    def ruleset(self, **body: Any) -> "OrganizationBuilder":
        """Add a ruleset of the organisation, given as GitHub's JSON."""
        with self.github.quietly():
            create_ruleset(self.github.world, Actor(self.github.maintainer), "Organization", self.account.id, body)
        return self
