"""What people do with pull requests at the simulated GitHub, with the webhooks that come of it."""

from dataclasses import dataclass

from tests.harness.github_harness import Harness
from tools.fake_github.model import branches, pulls
from tools.fake_github.model.records import PullRequest, Repository
from tools.fake_github.model.world import Actor, World


@dataclass(frozen=True, slots=True)
class Contributors:
    """People who may do everything."""

    harness: Harness

    @property
    def actor(self) -> Actor:
        """Who they are."""
        return Actor(self.harness.fake_github.maintainer)

    def push(self, repository: Repository, pull: PullRequest) -> None:
        """Put another commit on top of a pull request's head."""
        self.harness.act(_push, repository, pull)

    def force(self, repository: Repository, pull: PullRequest, sha: str) -> None:
        """Move a pull request's head to a commit that was there before."""
        self.harness.act(branches.push, repository, pull.head_ref, sha, force=True)

    def propose(self, repository: Repository, base: str) -> None:
        """Open a pull request with a commit of its own."""
        self.harness.act(_propose, repository, base)

    def retarget(self, repository: Repository, pull: PullRequest, base: str) -> None:
        """Have an open pull request go into another branch."""
        self.harness.act(pulls.edit, repository, pull, base=base)

    def close(self, repository: Repository, pull: PullRequest) -> None:
        """Close a pull request without merging it."""
        self.harness.act(pulls.close, repository, pull)

    def reopen(self, repository: Repository, pull: PullRequest) -> None:
        """Open a closed pull request again; raises Refusal where GitHub does not let people."""
        self.harness.act(pulls.reopen, repository, pull)

    def propose_the_same(self, repository: Repository, pull: PullRequest, base: str) -> None:
        """Open another pull request with the head of one that is there."""
        self.harness.act(_propose_the_same, repository, pull, base)


def _push(world: World, actor: Actor, repository: Repository, pull: PullRequest) -> None:
    tip = repository.branches[pull.head_ref]
    commit = branches.make_commit(world, repository, actor.account.id, "More", [tip])
    branches.push(world, actor, repository, pull.head_ref, commit.sha)


def _propose(world: World, actor: Actor, repository: Repository, base: str) -> None:
    head, tip = f"more-{repository.next_number}", repository.branches[base]
    commit = branches.make_commit(world, repository, actor.account.id, "New", [tip])
    branches.create_branch(world, actor, repository, head, commit.sha)
    pulls.open_pull_request(world, actor, repository, pulls.Proposal("New", head, base))


def _propose_the_same(world: World, actor: Actor, repository: Repository, pull: PullRequest, base: str) -> None:
    head = f"same-{repository.next_number}"
    branches.create_branch(world, actor, repository, head, pull.head_sha)
    pulls.open_pull_request(world, actor, repository, pulls.Proposal("Same", head, base))
