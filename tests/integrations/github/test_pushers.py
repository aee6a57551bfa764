"""Who pushed the head of a pull request, as GitHub records it, whatever its commits say."""

import pytest

from rules.exceptions.facts import Unknown
from tests.integrations.github.conftest import SimulatedGitHub
from tests.integrations.github.people import People
from tests.integrations.github.test_rule_facts import facts, people

__all__ = ["people"]


def test_pushers_are_who_pushed_whatever_the_commits_say(simulated: SimulatedGitHub, people: People) -> None:
    pull = simulated.web.pull_request()
    people.write(pull, ("ada", None, True))
    people.force_push(pull, "mallory")
    found = simulated.client.pushers_of("acme", "web", facts(simulated, pull).head_branch)
    assert found == frozenset({people.id("maintainer"), people.id("mallory")})


def test_pushes_to_an_earlier_branch_of_that_name_do_not_count(simulated: SimulatedGitHub, people: People) -> None:
    pull = simulated.web.pull_request()
    people.force_push(pull, "mallory")
    people.make_again(pull, "bob")
    found = simulated.client.pushers_of("acme", "web", facts(simulated, pull).head_branch)
    assert found == frozenset({people.id("bob")})


@pytest.mark.parametrize(("count", "looked_through"), [(298, True), (300, False)])
def test_pushers_are_known_of_three_hundred_pushes(
    simulated: SimulatedGitHub, people: People, count: int, looked_through: bool
) -> None:
    pull = simulated.web.pull_request()
    for _ in range(count):
        people.force_push(pull, "mallory")
    branch, before = facts(simulated, pull).head_branch, simulated.host.calls.total
    found = simulated.client.pushers_of("acme", "web", branch)
    assert isinstance(found, Unknown) != looked_through
    assert simulated.host.calls.total == before + 3
