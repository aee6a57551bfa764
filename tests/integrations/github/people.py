"""What people do to pull requests at the simulated GitHub."""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from rules.exceptions.facts import GitHubAccount
from tests.integrations.github.conftest import SimulatedGitHub
from tools.fake_github.model import labels, pulls
from tools.fake_github.model.branches import create_branch, delete_branch, make_commit, move
from tools.fake_github.model.records import PullRequest, Review
from tools.fake_github.model.world import Actor

Written = tuple[str, str | None, bool]
"""A commit: the logins of its author ("": of no account) and its committer (None: the author), and whether signed."""


class People:
    """What people do at the simulated GitHub, by their logins."""

    def __init__(self, simulated: SimulatedGitHub) -> None:
        self.world, self.repository = simulated.host.world, simulated.web.record

    def actor(self, login: str) -> Actor:
        return Actor(self.world.add_account(login, "Bot" if login.endswith("[bot]") else "User"))

    def id(self, login: str) -> int:
        return self.actor(login).account.id

    def known(self, login: str) -> GitHubAccount:
        """Return an account as facts have it."""
        return GitHubAccount(self.id(login), login)

    def label(self, pull: PullRequest, name: str, by: str = "maintainer") -> None:
        labels.add_label(self.world, self.actor(by), self.repository, pull, name)

    def unlabel(self, pull: PullRequest, name: str, by: str = "maintainer") -> None:
        labels.remove_label(self.world, self.actor(by), self.repository, pull, name)

    def review(self, pull: PullRequest, by: str, state: str = "APPROVED") -> Review:
        return pulls.review(self.world, self.actor(by).account, self.repository, pull, state)

    def retarget(self, pull: PullRequest, base: str, by: str) -> None:
        pulls.edit(self.world, self.actor(by), self.repository, pull, base=base)

    def add_files(self, pull: PullRequest, files: Mapping[str, str | None], *, on: str | None = None) -> None:
        """Put a commit with these files, by content, on the head; or first on the base, and the head upon it."""
        if on is not None:
            base = self._commit(self.repository.branches[pull.base_ref], {on: "Kept"})
            self._move(pull.base_ref, base)
            self._move(pull.head_ref, base)
        self._move(pull.head_ref, self._commit(self.repository.branches[pull.head_ref], files))

    def write(self, pull: PullRequest, *commits: Written) -> None:
        """Let a pull request have these commits."""
        last = self.repository.branches[pull.base_ref]
        for author, committer, verified in commits:
            last = self._commit(last, {"a.txt": str(len(self.repository.commits))})
            commit = self.repository.commits[last]
            commit.known, commit.verified = author != "", verified
            commit.author_id = self.id(author or "maintainer")
            commit.committer_id = self.id(committer) if committer else None
        self._move(pull.head_ref, last)

    def force_push(self, pull: PullRequest, by: str) -> None:
        sha = self._commit(self.repository.branches[pull.base_ref], {"a.txt": "again"})
        move(self.world, self.actor(by), self.repository, pull.head_ref, sha, "force_push")

    def make_again(self, pull: PullRequest, by: str) -> None:
        """Delete the branch of a head, and make another one of its name."""
        sha = self.repository.branches[pull.head_ref]
        delete_branch(self.world, self.actor(by), self.repository, pull.head_ref)
        create_branch(self.world, self.actor(by), self.repository, pull.head_ref, sha)

    @contextmanager
    def at(self, instant: datetime) -> Iterator[None]:
        """Let it be an instant at GitHub, where only people do something."""
        clock, self.world.clock = self.world.clock, lambda: instant
        yield
        self.world.clock = clock

    def _commit(self, parent: str, files: Mapping[str, str | None]) -> str:
        encoded = {name: None if text is None else b64encode(text.encode()).decode() for name, text in files.items()}
        author = self.id("maintainer")
        return make_commit(self.world, self.repository, author, "Change", [parent], encoded).sha

    def _move(self, branch: str, sha: str) -> None:
        move(self.world, self.actor("maintainer"), self.repository, branch, sha, "push")
