"""The rules that restrict creations, updates and deletions of branches, by whatever way."""

from functools import partial
from typing import Any

import pytest
from githubkit import GitHub
from githubkit.exception import RequestFailed

from tests.tools.fake_github.conftest import CHECK, PLACE
from tests.tools.fake_github.conftest import ruleset as ruleset_of
from tools.fake_github import FakeGitHub
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model.queue import enqueue
from tools.fake_github.model.world import Actor
from tools.fake_github.seeding import required_check_rules

ALWAYS = {"actor_type": "RepositoryRole", "actor_id": 5, "bypass_mode": "always"}


@pytest.fixture
def web(github: FakeGitHub, bot: GitHub[Any]) -> RepositoryBuilder:
    return github.organization("acme").repository("web", branches=("next",))


ruleset = partial(ruleset_of, pattern="refs/heads/next")


def status(call: Any) -> int:
    """Return the status of what a call is answered."""
    try:
        return int(call().status_code)
    except RequestFailed as refused:
        return refused.response.status_code


class Branch:
    """What a person does with one branch; each returns the status."""

    def __init__(self, person: GitHub[Any], web: RepositoryBuilder, name: str) -> None:
        self.person, self.web, self.name = person, web, name
        self.git = person.rest.git

    def create(self, sha: str | None = None) -> int:
        """Create it."""
        sha = sha or self.web.record.branches["main"]
        return status(lambda: self.git.create_ref(*PLACE, ref=f"refs/heads/{self.name}", sha=sha))

    def push(self, sha: str) -> int:
        """Move it."""
        return status(lambda: self.git.update_ref(*PLACE, f"heads/{self.name}", sha=sha))

    def write(self) -> int:
        """Write a file on it."""
        change: Any = {"message": "Change", "content": "aGVsbG8=", "branch": self.name}
        return status(lambda: self.person.rest.repos.create_or_update_file_contents(*PLACE, "a.txt", data=change))

    def merge(self) -> int:
        """Merge a pull request into it."""
        number = self.web.pull_request(base=self.name, checks={CHECK: "success"}).number
        return status(lambda: self.person.rest.pulls.merge(*PLACE, number))

    def delete(self) -> int:
        """Delete it."""
        return status(lambda: self.git.delete_ref(*PLACE, f"heads/{self.name}"))


@pytest.fixture
def branch(person: GitHub[Any], web: RepositoryBuilder) -> Branch:
    return Branch(person, web, "next")


def test_restricted_creation_keeps_a_branch_from_being_created_only(branch: Branch, web: RepositoryBuilder) -> None:
    web.ruleset(**ruleset("creation"))
    assert branch.push(web.pull_request(base="next").head_sha) == 200
    assert (branch.write(), branch.merge(), branch.delete()) == (201, 200, 204)
    assert branch.create() == 422
    web.ruleset(**ruleset("creation", pattern="~ALL", bypass_actors=[ALWAYS], name="All"))
    assert Branch(branch.person, web, "other").create() == 201


def test_restricted_deletion_keeps_a_branch_from_being_deleted_only(branch: Branch, web: RepositoryBuilder) -> None:
    web.ruleset(**ruleset("deletion"))
    assert (branch.delete(), branch.write(), branch.merge()) == (422, 201, 200)
    web.ruleset(**ruleset("deletion", pattern="refs/heads/new", name="New"))
    assert Branch(branch.person, web, "new").create() == 201


def test_restricted_update_keeps_a_branch_from_pushes_and_merges(branch: Branch, web: RepositoryBuilder) -> None:
    web.ruleset(**ruleset("update"))
    assert branch.push(web.pull_request(base="next").head_sha) == 422
    assert (branch.write(), branch.merge(), branch.delete(), branch.create()) == (409, 405, 204, 201)


def test_restricted_update_keeps_auto_merge_and_the_queue_from_merging(
    branch: Branch, web: RepositoryBuilder, bot: GitHub[Any]
) -> None:
    web.requires(CHECK, "next")
    armed = web.pull_request(base="next", autoMerge=True)
    web.ruleset(**ruleset("update", bypass_actors=[ALWAYS]))
    bot.rest.checks.create(*PLACE, name=CHECK, head_sha=armed.head_sha, status="completed", conclusion="success")
    assert armed.merged_at is None
    web.merge_queue("next")
    group = enqueue(web.github.world, Actor(web.github.maintainer), web.record, armed).head_sha or ""
    bot.rest.checks.create(*PLACE, name=CHECK, head_sha=group, status="completed", conclusion="success")
    assert (armed.merged_at, web.github.world.queue_entry(armed)) == (None, None)


@pytest.mark.parametrize(
    ("rules", "kept"),
    [(None, False), (ruleset("deletion", pattern="~ALL"), True), (ruleset("deletion", bypass_actors=[ALWAYS]), False)],
    ids=["no rule", "restricted", "bypassed"],
)
def test_head_branch_is_deleted_after_the_merge_unless_a_rule_keeps_it(
    person: GitHub[Any], web: RepositoryBuilder, rules: dict[str, Any] | None, *, kept: bool
) -> None:
    person.rest.repos.update(*PLACE, delete_branch_on_merge=True)
    web.record.branches["next"] = web.pull_request().head_sha
    above = web.pull_request(head="next", base="main")
    stacked = web.pull_request(base="next")
    if rules:
        web.ruleset(**rules)
    assert status(lambda: person.rest.pulls.merge(*PLACE, above.number)) == 200
    assert ("next" in web.record.branches) == kept
    assert (stacked.state, stacked.base_ref) == ("open", "next" if kept else "main")


@pytest.mark.parametrize("enforced", [True, False])
def test_enforcement_on_creation_concerns_status_checks_alone(
    branch: Branch, web: RepositoryBuilder, *, enforced: bool
) -> None:
    rules = required_check_rules(CHECK, web.github.app_id)
    rules[0]["parameters"]["do_not_enforce_on_create"] = not enforced
    rules.append({"type": "creation", "parameters": {"do_not_enforce_on_create": True}})
    web.ruleset(**ruleset(pattern="refs/heads/checked") | {"rules": rules[:1], "name": "Checked"})
    web.ruleset(**ruleset(pattern="refs/heads/closed") | {"rules": rules, "name": "Closed"})
    unchecked = web.pull_request()
    new = Branch(branch.person, web, "checked")
    assert new.create() == (422 if enforced else 201)
    assert Branch(branch.person, web, "closed").create() == 422
    web.branch("checked")
    assert new.push(unchecked.head_sha) == 422
