"""Who does what to a pull request at GitHub, in tests of rules."""

from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any

import requests

from services.core.unit_of_work import UnitOfWork
from tests.harness.github_harness import Harness
from tools.fake_github.model.records import PullRequest
from tools.fake_github.model.teams import delete_team

CAPTAINS = "acme/captains"
BY_CAPTAINS = {"teams": [CAPTAINS]}
DOCS = {"paths": {"onlyMatching": ["docs/**", "*.md"]}}
HOTFIX = {"label": {"name": "hotfix", "setBy": BY_CAPTAINS}}
FROM_BOT = {"author": {"accounts": ["bot"]}}
APPROVED = {"approvals": {"fromTeam": CAPTAINS, "atLeast": 1}}


class People:
    """Accounts at the simulated GitHub, with tokens of their own: a captain, a bot, an author and a stranger."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        world, organization = harness.fake_github.world, harness.fake_github.organization("acme")
        world.clock = lambda: harness.jobs.clock.read(datetime.now(UTC))  # GitHub's clock goes with ours
        self.accounts = {
            login: world.add_account(login, "User", f"token-of-{login}").id
            for login in ("captain", "deputy", "bot", "author", "mallory")
        }
        self.acme = organization.account.id
        self.team = self.set_captains("captain")

    def set_captains(self, *logins: str) -> int:
        """Say who is in the team of captains; return its id."""
        return self._harness.fake_github.organization("acme").team_named("captains", *logins)

    def delete_captains(self) -> None:
        """Delete the team of captains."""
        self._harness.act(delete_team, self._harness.fake_github.organization("acme").account, "captains")

    def call(self, login: str, method: str, path: str, body: dict[str, Any] | None = None) -> requests.Response:
        """Do something at GitHub as one of them."""
        headers = {"Authorization": f"Bearer token-of-{login}"}
        return requests.request(method, self._harness.base_url + path, headers=headers, json=body, timeout=10)

    def write(self, pull: PullRequest, login: str, *, verified: bool = False) -> None:
        """Have a pull request, and its commit, be of an account."""
        world = self._harness.fake_github.world
        with world.lock:
            pull.author_id = self.accounts[login]
            commit = world.repositories[pull.repository_id].commits[pull.head_sha]
            commit.author_id, commit.verified = self.accounts[login], verified

    def label(self, pull: PullRequest, login: str, name: str = "hotfix") -> None:
        """Set a label, half a minute later."""
        self._wait()
        body = {"labels": [name]}
        assert self.call(login, "POST", f"/repos/acme/web/issues/{pull.number}/labels", body).status_code == 200

    def unlabel(self, pull: PullRequest, login: str, name: str = "hotfix") -> None:
        """Take a label away."""
        path = f"/repos/acme/web/issues/{pull.number}/labels/{name}"
        assert self.call(login, "DELETE", path).status_code == 200

    def approve(self, pull: PullRequest, login: str) -> int:
        """Approve the head; return the id of the review."""
        self._wait()
        path = f"/repos/acme/web/pulls/{pull.number}/reviews"
        return int(self.call(login, "POST", path, {"event": "APPROVE"}).json()["id"])

    def push(self, pull: PullRequest, login: str, path: str = "docs/more.md") -> None:
        """Push a commit with one file to the branch of the head."""
        body = {"message": "more", "content": "bW9yZQ==", "branch": pull.head_ref}
        assert self.call(login, "PUT", f"/repos/acme/web/contents/{path}", body).status_code in {200, 201}

    def _wait(self) -> None:
        self._harness.pass_time(seconds=30)


def edits(harness: Harness) -> AbstractContextManager[UnitOfWork]:
    """Open a unit of work in which an administrator edits rules."""
    return harness.unit()
