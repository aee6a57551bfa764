"""What people do at GitHub between two reads of one pull request lets nothing in."""

from collections.abc import Callable
from typing import Any

import pytest

from integrations.github import InstallationClient
from tests.harness.github_harness import Harness
from tests.jobs.exception_rules.conftest import AddRule
from tests.jobs.exception_rules.people import DOCS, FROM_BOT, People
from tests.jobs.pull_request_exceptions.grants import notify
from tools.fake_github.model.branches import make_commit, move
from tools.fake_github.model.records import PullRequest
from tools.fake_github.model.world import Actor

KEPT = "S2VwdA=="


class Repository:
    """The repository of a pull request, and who changes it between two reads."""

    def __init__(self, harness: Harness, pull: PullRequest) -> None:
        self.harness, self.world, self.pull = harness, harness.fake_github.world, pull
        self.record = self.world.repositories[pull.repository_id]
        self.actor = Actor(self.world.logins["mallory"])

    def commit(self, parent: str, files: dict[str, str | None]) -> str:
        return make_commit(self.world, self.record, self.pull.author_id, "Change", [parent], files).sha

    def move(self, branch: str, sha: str, how: str = "push") -> None:
        with self.world.lock:
            move(self.world, self.actor, self.record, branch, sha, how)

    def retarget(self, base: str) -> None:
        self.harness.person("PATCH", f"/repos/acme/web/pulls/{self.pull.number}", {"base": base})


def interrupt(
    monkeypatch: pytest.MonkeyPatch, name: str, before: Callable[[], None], after: Callable[[], None]
) -> None:
    """Do something before the first call of a method of the client, and something after it."""
    original = getattr(InstallationClient, name)

    def interrupted(client: InstallationClient, *args: Any) -> Any:
        monkeypatch.setattr(InstallationClient, name, original)
        before()
        found = original(client, *args)
        after()
        return found

    monkeypatch.setattr(InstallationClient, name, interrupted)


def granted(harness: Harness) -> int:
    notify(harness)
    harness.run_until_idle()
    return len(harness.sql("SELECT id FROM audit_entries WHERE action = 'exception.granted'"))


@pytest.fixture
def renaming(harness: Harness, pull: PullRequest, people: People) -> Repository:
    """Have a pull request that renames `src/b.md`, of which the branch `other` has one half already."""
    found = Repository(harness, pull)
    found.move("main", found.commit(pull.base_sha, {"src/b.md": KEPT}))
    half = found.commit(found.record.branches["main"], {"src/b.md": None})
    found.record.branches["other"] = half
    found.move(pull.head_ref, found.commit(half, {"docs/b.md": KEPT}))
    notify(harness)
    harness.run_until_idle()
    return found


def test_files_of_another_base_let_nothing_in(
    harness: Harness, renaming: Repository, add_rule: AddRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, "all_files", lambda: renaming.retarget("other"), lambda: renaming.retarget("main"))
    add_rule(DOCS)

    assert granted(harness) == 0
    assert [event.kind for event in renaming.pull.timeline] == ["BaseRefChangedEvent"] * 2


def test_files_of_another_head_let_nothing_in(
    harness: Harness, renaming: Repository, add_rule: AddRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch, head = renaming.pull.head_ref, renaming.pull.head_sha
    harmless = renaming.commit(renaming.record.branches["main"], {"docs/c.md": KEPT})
    interrupt(
        monkeypatch,
        "all_files",
        lambda: renaming.move(branch, harmless, "force_push"),
        lambda: renaming.move(branch, head, "force_push"),
    )
    add_rule(DOCS)

    assert granted(harness) == 0
    assert len(renaming.pull.timeline) == 2


def test_commits_of_another_base_let_nothing_in(
    harness: Harness, pull: PullRequest, people: People, add_rule: AddRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Repository(harness, pull)
    people.write(pull, "author")
    found.record.branches["other"] = pull.head_sha
    own = found.commit(pull.head_sha, {"a.txt": KEPT})
    found.record.commits[own].author_id, found.record.commits[own].verified = people.accounts["bot"], True
    pull.author_id = people.accounts["bot"]
    found.move(pull.head_ref, own)
    notify(harness)
    harness.run_until_idle()
    interrupt(monkeypatch, "commits_of", lambda: found.retarget("other"), lambda: found.retarget("main"))
    add_rule(FROM_BOT)

    assert granted(harness) == 0
    assert len(pull.timeline) == 2
