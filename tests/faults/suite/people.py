"""People at GitHub: they push, close and open pull requests."""

import random
from dataclasses import dataclass

from tests.faults.suite.seeding import Organization
from tests.faults.suite.stack import Stack
from tools.fake_github.model import branches, pulls
from tools.fake_github.model.records import PullRequest, Repository
from tools.fake_github.model.world import Actor


@dataclass(frozen=True, slots=True)
class People:
    """A person who works in one organisation's repositories."""

    stack: Stack
    organization: Organization

    def open_pulls(self) -> list[tuple[Repository, PullRequest]]:
        """Return what could be merged."""
        return [
            (repository, pull)
            for repository in self.organization.repositories
            for pull in repository.pulls.values()
            if pull.state == "open"
        ]

    def push(self, repository: Repository, pull: PullRequest) -> str:
        """Push a commit to a pull request, and return it."""
        world = self.stack.github.world
        with world.lock:
            actor = Actor(self.stack.github.maintainer)
            tip = repository.branches[pull.head_ref]
            commit = branches.make_commit(world, repository, actor.account.id, "More", [tip])
            branches.push(world, actor, repository, pull.head_ref, commit.sha)
        return commit.sha

    def push_somewhere(self, chance: random.Random) -> str:
        """Push to any open pull request."""
        return self.push(*chance.choice(self.open_pulls()))

    def close_and_reopen(self, repository: Repository, pull: PullRequest) -> None:
        """Close a pull request and open it again."""
        world = self.stack.github.world
        with world.lock:
            actor = Actor(self.stack.github.maintainer)
            pulls.close(world, actor, repository, pull)
            pulls.reopen(world, actor, repository, pull)
