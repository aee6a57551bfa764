"""Stops of an organisation when GitHub fails, workers die, and freezes begin and end meanwhile: all comes right."""

from typing import Any

import pytest

from tests.harness.github_harness import Harness
from tests.jobs.setup.requests import done
from tests.jobs.stops.requests import MANY, MORE, above, on, open_repositories, required_above, settle, stop, within
from tests.jobs.stops.samples import sampled
from tests.jobs.stops.stories import (
    die_after_lifting,
    die_while_two_freezes_begin,
    freeze_again_while_a_stop_ends,
    freeze_and_lift_in_spite_of,
    lift_before_a_restore_is_confirmed,
    lift_in_spite_of,
    lift_while_a_stop_begins,
)
from tests.jobs.stops.test_faults import FAULTS
from tests.jobs.stops.truths import assert_honest, come_right, entering

RULESETS = "/orgs/acme/rulesets"
CALLS = ("GET " + RULESETS, "POST " + RULESETS, "PUT " + RULESETS, "graphql query Rules ")

pytestmark = pytest.mark.check


def seldom(transactions: int) -> pytest.MarkDecorator:
    """Return the mark that runs a test for each of so many transactions; for a few of them outside `make soak`."""
    numbers = range(1, transactions)
    return pytest.mark.parametrize("transactions", sampled(numbers, quick=(), checked=numbers[3::8]))


@pytest.fixture(params=sampled(FAULTS, quick=("applied and lost",), checked=("invalid",)))
def fault(request: pytest.FixtureRequest) -> dict[str, Any]:
    return FAULTS[request.param]


@pytest.fixture
def known(many: Harness) -> Harness:
    """Return the harness whose organisation has a ruleset of ours, from a former freeze."""
    freeze = many.freeze()
    stop(many)
    many.lift(freeze)
    settle(many)
    return many


@pytest.mark.parametrize("call", sampled(CALLS, quick=CALLS[1:2], checked=CALLS))
def test_first_stop_of_an_organization_comes_right(many: Harness, call: str, fault: dict[str, Any]) -> None:
    freeze_and_lift_in_spite_of(many, scope=call, **fault)
    assert [each.enforcement for each in above(many)] in ([], ["disabled"])


@pytest.mark.parametrize("call", CALLS[2:])
def test_stop_of_a_known_organization_comes_right(known: Harness, call: str, fault: dict[str, Any]) -> None:
    freeze_and_lift_in_spite_of(known, scope=call, **fault)


@pytest.mark.parametrize("call", sampled(CALLS, quick=CALLS[2:3], checked=CALLS))
def test_lifted_stop_of_an_organization_ends(many: Harness, call: str, fault: dict[str, Any]) -> None:
    lift_in_spite_of(many, required_above, scope=call, **fault)


@seldom(20)
def test_stop_of_an_organization_comes_right_wherever_a_worker_dies(many: Harness, transactions: int) -> None:
    die_while_two_freezes_begin(many, (on("main"), on("next")), transactions)


@seldom(16)
def test_stop_of_an_organization_ends_wherever_a_worker_dies(many: Harness, transactions: int) -> None:
    freezes = [many.freeze(on("main")), many.freeze(on("next"))]
    die_after_lifting(many, [freezes[transactions % 2]], transactions)


@seldom(16)
def test_freeze_that_starts_while_a_stop_above_ends_is_held(many: Harness, transactions: int) -> None:
    main = [each.id for each in many.branches.values() if each.name == "main"]
    freeze_again_while_a_stop_ends(many, on("main"), main, transactions)
    come_right(many)


@seldom(16)
def test_lift_while_a_stop_above_begins_frees_the_branches(many: Harness, transactions: int) -> None:
    lift_while_a_stop_begins(many, on("main"), transactions)


def test_no_stop_above_ends_while_a_restore_is_not_confirmed(many: Harness) -> None:
    lift_before_a_restore_is_confirmed(many, required_above, "organization_stops")


def test_repositories_have_stops_of_their_own_when_github_refuses_that_of_the_organization(many: Harness) -> None:
    refused = many.fake_github.faults.add(scope="POST " + RULESETS, kind="error", status=422, message="maximum of 75")
    many.freeze()
    stop(many)
    assert refused.struck == 1
    assert required_above(many) == []
    assert open_repositories(many) == []
    come_right(many)


def test_stop_that_cannot_be_extended_holds_until_repositories_have_their_own(many: Harness) -> None:
    """Other repositories join, but GitHub takes no change of the ruleset."""
    done(many, *MORE)
    settle(many)
    many.freeze(within(many, MANY))
    stop(many)
    many.fake_github.faults.add(scope="PUT " + RULESETS, kind="error", status=502)
    many.freeze(within(many, MORE))
    for _ in range(3):
        stop(many)
        assert_honest(many)
        assert open_repositories(many) == []
        many.pass_time(seconds=6)
    assert [entering(many, "main", name) for name in MORE] == [set()] * len(MORE)
    many.fake_github.faults.clear()
    for _ in range(3):
        stop(many)
        assert_honest(many)
        assert open_repositories(many) == []
        many.pass_time(seconds=20)
    come_right(many)
