"""A required check decides whether a pull request can be merged, in GitHub's own words."""

from typing import Any

import pytest
from githubkit import GitHub

from tests.tools.fake_github.conftest import CHECK, PLACE, refused, ruleset
from tools.fake_github import FakeGitHub
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model.checks import create_check_run
from tools.fake_github.model.installations import register_app
from tools.fake_github.model.world import Actor
from tools.fake_github.seeding import required_check_rules


@pytest.fixture
def web(github: FakeGitHub, bot: GitHub[Any]) -> RepositoryBuilder:
    return github.organization("acme").repository("web", branches=("next",)).requires(CHECK)


def report(bot: GitHub[Any], sha: str, conclusion: Any, name: str = CHECK) -> None:
    bot.rest.checks.create(*PLACE, name=name, head_sha=sha, status="completed", conclusion=conclusion)


def refusal(person: GitHub[Any], number: int, sha: str | None = None) -> tuple[int, str]:
    return refused(person.rest.pulls.merge, *PLACE, number, data={"sha": sha} if sha else {})


def requiring(context: str, **more: Any) -> dict[str, Any]:
    """Return a ruleset that requires a check of any App."""
    return ruleset(*required_check_rules(context, None), **more)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ({}, "expected"),
        ({"status": "queued"}, "queued"),
        ({"status": "in_progress"}, "in progress"),
        *(
            ({"status": "completed", "conclusion": each}, "failing")
            for each in ("failure", "cancelled", "timed_out", "action_required")
        ),
    ],
)
def test_merge_is_rejected_unless_the_required_check_has_succeeded(
    web: RepositoryBuilder, person: GitHub[Any], bot: GitHub[Any], run: dict[str, Any], words: str
) -> None:
    pull = web.pull_request(checks={CHECK: "success"} if run else {})
    if run:
        bot.rest.checks.create(*PLACE, name=CHECK, head_sha=pull.head_sha, **run)
    expected = f'Repository rule violations found\n\nRequired status check "{CHECK}" is {words}.\n\n'
    assert refusal(person, pull.number) == (405, expected)
    assert person.rest.pulls.get(*PLACE, pull.number).parsed_data.mergeable_state == "blocked"


@pytest.mark.parametrize("conclusion", ["success", "neutral", "skipped"])
def test_merge_is_accepted_when_the_newest_run_satisfies(
    web: RepositoryBuilder, person: GitHub[Any], bot: GitHub[Any], conclusion: str
) -> None:
    pull = web.pull_request(checks={CHECK: "failure"})
    report(bot, pull.head_sha, conclusion)
    merged = person.rest.pulls.merge(*PLACE, pull.number).parsed_data
    assert merged.message == "Pull Request successfully merged"
    assert web.record.branches["main"] == merged.sha
    assert person.rest.pulls.get(*PLACE, pull.number).parsed_data.merged


def test_missing_required_checks_are_counted(web: RepositoryBuilder, person: GitHub[Any], bot: GitHub[Any]) -> None:
    web.ruleset(**requiring("ci"))
    pull = web.pull_request()
    assert "2 of 2 required status checks are expected." in refusal(person, pull.number)[1]
    report(bot, pull.head_sha, "failure")
    message = refusal(person, pull.number)[1]
    assert "2 of 2 required status checks have not succeeded: 1 failing and 1 expected." in message


def test_success_of_another_app_does_not_satisfy_a_pinned_check(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    pull = web.pull_request()
    other = register_app(web.github.world, 99, "forger", None)
    actor = Actor(web.github.world.accounts[other.bot_id], other.id)
    fields = {"name": CHECK, "head_sha": pull.head_sha, "conclusion": "success"}
    create_check_run(web.github.world, actor, other.id, web.record, fields)
    assert "is expected." in refusal(person, pull.number)[1]


@pytest.mark.parametrize(("enforcement", "blocks"), [("active", True), ("evaluate", False), ("disabled", False)])
def test_only_an_active_ruleset_blocks(
    github: FakeGitHub, bot: GitHub[Any], person: GitHub[Any], enforcement: str, *, blocks: bool
) -> None:
    web = github.organization("acme").repository("web").ruleset(**requiring("ci") | {"enforcement": enforcement})
    pull = web.pull_request()
    if blocks:
        assert refusal(person, pull.number)[0] == 405
    else:
        assert person.rest.pulls.merge(*PLACE, pull.number).parsed_data.merged


@pytest.mark.parametrize(("pattern", "blocks"), [("~ALL", True), ("w*", True), ("api", False)])
def test_organization_ruleset_blocks_in_the_named_repositories(
    github: FakeGitHub, bot: GitHub[Any], person: GitHub[Any], pattern: str, *, blocks: bool
) -> None:
    web = github.organization("acme").repository("web")
    conditions = {
        "ref_name": {"include": ["refs/heads/ma*"], "exclude": []},
        "repository_name": {"include": [pattern], "exclude": []},
    }
    github.organization("acme").ruleset(**requiring("ci", conditions=conditions))
    assert bool(person.rest.repos.get_branch_rules(*PLACE, "main").parsed_data) == blocks
    pull = web.pull_request()
    if blocks:
        assert refusal(person, pull.number)[0] == 405


def test_bypass_actor_can_merge_despite_the_rules(github: FakeGitHub, bot: GitHub[Any], person: GitHub[Any]) -> None:
    passing = [{"actor_id": github.maintainer.id, "actor_type": "User", "bypass_mode": "always"}]
    web = github.organization("acme").repository("web").ruleset(**requiring("ci", bypass_actors=passing))
    assert person.rest.pulls.merge(*PLACE, web.pull_request().number).parsed_data.merged


def test_shared_head_is_blocked_per_base(web: RepositoryBuilder, person: GitHub[Any], bot: GitHub[Any]) -> None:
    web.requires("change-freeze/next", "next")
    first = web.pull_request(base="main")
    second = web.pull_request(base="next", sharesHeadWith=first.number)
    assert first.head_sha == second.head_sha
    report(bot, first.head_sha, "failure")
    report(bot, first.head_sha, "success", "change-freeze/next")
    assert refusal(person, first.number)[0] == 405
    assert person.rest.pulls.merge(*PLACE, second.number).parsed_data.merged


def test_unmergeable_pull_request_is_rejected_with_its_reason(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    draft = web.pull_request(draft=True)
    conflicting = web.pull_request(mergeable=False)
    pull = web.pull_request(checks={CHECK: "success"})
    assert refusal(person, draft.number) == (405, "Pull Request is still a draft")
    assert refusal(person, conflicting.number) == (405, "Pull Request has merge conflicts")
    assert refusal(person, pull.number, "0" * 40)[0] == 409
    person.rest.pulls.merge(*PLACE, pull.number, data={"sha": pull.head_sha})
    assert refusal(person, pull.number) == (405, "Pull Request is not mergeable")


def test_approval_is_required_by_the_rules(github: FakeGitHub, bot: GitHub[Any], person: GitHub[Any]) -> None:
    rule = {"type": "pull_request", "parameters": {"required_approving_review_count": 1}}
    web = github.organization("acme").repository("web").ruleset(**ruleset(rule))
    assert "At least 1 approving review is required" in refusal(person, web.pull_request().number)[1]
    approved = web.pull_request()
    person.rest.pulls.create_review(*PLACE, approved.number, event="APPROVE")
    assert person.rest.pulls.merge(*PLACE, approved.number).parsed_data.merged


def test_auto_merge_merges_when_the_check_succeeds(
    web: RepositoryBuilder, person: GitHub[Any], bot: GitHub[Any]
) -> None:
    pull = web.pull_request(autoMerge=True)
    report(bot, pull.head_sha, "failure")
    assert person.rest.pulls.get(*PLACE, pull.number).parsed_data.auto_merge
    report(bot, pull.head_sha, "success")
    assert person.rest.pulls.get(*PLACE, pull.number).parsed_data.merged
