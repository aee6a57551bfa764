"""Stops of an organisation when GitHub fails, workers die, and freezes begin and end meanwhile: all comes right."""

from datetime import timedelta
from typing import Any

import pytest

from services.core.unit_of_work import SYSTEM_CALLER
from services.freezes.completion import record_enforcement_on
from services.restores.restores import confirm_restore, declare_restored, record_shown
from tests.harness.github_harness import Harness
from tests.jobs.setup.requests import add, ask, work
from tests.jobs.setup.test_interruptions import DyingUnits
from tests.jobs.stops.requests import MANY, MORE, above, on, open_repositories, pass_time, required_above, settle, stop
from tests.jobs.stops.samples import sampled
from tests.jobs.stops.test_faults import FAULTS
from tests.jobs.stops.test_interruptions import InterruptedUnits, run, take_over
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
    many.fake_github.faults.add(scope=call, **fault)
    freeze = many.freeze()
    stop(many)
    assert_honest(many)
    many.fake_github.faults.clear()
    come_right(many)
    many.lift(freeze)
    come_right(many)
    assert [each.enforcement for each in above(many)] in ([], ["disabled"])


@pytest.mark.check
@pytest.mark.parametrize("call", CALLS[2:])
def test_stop_of_a_known_organization_comes_right(known: Harness, call: str, fault: dict[str, Any]) -> None:
    known.fake_github.faults.add(scope=call, **fault)
    freeze = known.freeze()
    stop(known)
    assert_honest(known)
    known.fake_github.faults.clear()
    come_right(known)
    known.lift(freeze)
    come_right(known)


@pytest.mark.parametrize("call", sampled(CALLS, quick=CALLS[2:3], checked=CALLS))
def test_lifted_stop_of_an_organization_ends(many: Harness, call: str, fault: dict[str, Any]) -> None:
    freeze = many.freeze()
    stop(many)
    assert required_above(many)
    many.fake_github.faults.add(scope=call, **fault)
    many.lift(freeze)
    for _ in range(4):
        stop(many)
        pass_time(many, timedelta(seconds=15))
    many.fake_github.faults.clear()
    come_right(many)


@seldom(20)
def test_stop_of_an_organization_comes_right_wherever_a_worker_dies(many: Harness, transactions: int) -> None:
    first = many.freeze(on("main"))
    run(many, DyingUnits(many.jobs, transactions))
    assert_honest(many)
    take_over(many)
    second = many.freeze(on("next"))
    run(many, DyingUnits(many.jobs, transactions))
    assert_honest(many)
    take_over(many)
    come_right(many)
    for freeze in (first, second):
        many.lift(freeze)
    come_right(many)


@seldom(16)
def test_stop_of_an_organization_ends_wherever_a_worker_dies(many: Harness, transactions: int) -> None:
    freezes = [many.freeze(on("main")), many.freeze(on("next"))]
    stop(many)
    many.lift(freezes[transactions % 2])
    run(many, DyingUnits(many.jobs, transactions))
    assert_honest(many)
    take_over(many)
    come_right(many)


@seldom(16)
def test_freeze_that_starts_while_a_stop_above_ends_is_held(many: Harness, transactions: int) -> None:
    first = many.freeze(on("main"))
    stop(many)
    many.lift(first)

    def freeze_again() -> None:
        many.freeze(on("main"))
        with many.jobs.open(SYSTEM_CALLER) as uow:
            record_enforcement_on(uow, [each.id for each in many.branches.values() if each.name == "main"])
        assert_honest(many)

    run(many, InterruptedUnits(many.jobs, transactions, freeze_again))
    assert_honest(many)
    come_right(many)


@seldom(16)
def test_lift_while_a_stop_above_begins_frees_the_branches(many: Harness, transactions: int) -> None:
    freeze = many.freeze(on("main"))
    run(many, InterruptedUnits(many.jobs, transactions, lambda: many.lift(freeze)))
    assert_honest(many)
    come_right(many)


def test_no_stop_above_ends_while_a_restore_is_not_confirmed(many: Harness) -> None:
    freeze = many.freeze()
    stop(many)
    with many.jobs.open(SYSTEM_CALLER) as uow:
        declare_restored(uow)
    many.lift(freeze)
    for _ in range(3):
        stop(many)
        pass_time(many, timedelta(seconds=30))
    assert len(required_above(many)) == 1
    assert many.sql("SELECT last_error_code FROM organization_stops") == [("maintenance",)]
    with many.jobs.open(SYSTEM_CALLER) as uow:
        record_shown(uow)
    confirm_restore(many.jobs, by="grace@example.com")
    come_right(many)


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
    add(many, *MORE)
    ask(many)
    work(many)
    settle(many)
    first, late = ([many.branches[f"acme/{name}:main"].repository_id for name in names] for names in (MANY, MORE))
    many.freeze({"type": "repositories", "branches": ["main"], "repositories": first})
    stop(many)
    many.fake_github.faults.add(scope="PUT " + RULESETS, kind="error", status=502)
    many.freeze({"type": "repositories", "branches": ["main"], "repositories": late})
    for _ in range(3):
        stop(many)
        assert_honest(many)
        assert open_repositories(many) == []
        pass_time(many, timedelta(seconds=6))
    assert [entering(many, "main", name) for name in MORE] == [set()] * len(MORE)
    many.fake_github.faults.clear()
    for _ in range(3):
        stop(many)
        assert_honest(many)
        assert open_repositories(many) == []
        pass_time(many, timedelta(seconds=20))
    come_right(many)
