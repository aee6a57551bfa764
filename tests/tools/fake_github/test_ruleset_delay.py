"""A changed ruleset is shown at once, and enforced after a delay."""

from datetime import timedelta
from typing import Any

from githubkit import GitHub
from githubkit.exception import RequestFailed

from tests.tools.fake_github.conftest import PLACE, ruleset
from tools.fake_github import FakeGitHub
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model.ways_in import list_ways_in


def merges(person: GitHub[Any], web: RepositoryBuilder) -> bool:
    """Merge a pull request; return whether it was accepted, which is what the question says before."""
    pull = web.pull_request()
    asked = [way for way in list_ways_in(web.github.world, web.record, "main") if way.number == pull.number]
    try:
        merged = person.rest.pulls.merge(*PLACE, pull.number).parsed_data.merged
    except RequestFailed:
        merged = False
    assert any(way.actor == "organization_admin" for way in asked) == merged
    return merged


def wait(github: FakeGitHub, seconds: float) -> None:
    """Let time pass in the world."""
    clock = github.world.clock
    github.world.clock = lambda: clock() + timedelta(seconds=seconds)


def test_changed_ruleset_is_enforced_after_the_delay_of_the_repository(
    github: FakeGitHub, web: RepositoryBuilder, person: GitHub[Any]
) -> None:
    github.settings.update({"rulesetDelaySeconds": 3.0, "rulesetDelays": {"acme/web": 20.0}})
    rules: Any = person.rest.repos
    number = rules.create_repo_ruleset(*PLACE, data=ruleset("update")).parsed_data.id
    assert [rule.type for rule in rules.get_branch_rules(*PLACE, "main").parsed_data] == ["update"]
    for seconds, accepted in ((0, True), (19, True), (2, False)):
        wait(github, seconds)
        assert merges(person, web) == accepted
    rules.update_repo_ruleset(*PLACE, number, data=ruleset("update", enforcement="disabled"))
    assert rules.get_branch_rules(*PLACE, "main").parsed_data == []
    rules.update_repo_ruleset(*PLACE, number, data=ruleset("update"))
    rules.delete_repo_ruleset(*PLACE, number)
    assert not merges(person, web)
    wait(github, 21)
    assert merges(person, web)
