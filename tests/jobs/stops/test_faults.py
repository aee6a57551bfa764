"""Stops when GitHub refuses, fails or loses answers: everything comes right by itself."""

from collections.abc import Iterator
from typing import Any

import pytest

from rules.rulesets.frozen_branches import NAME
from tests.harness.github_harness import Harness
from tests.jobs.stops.requests import branch, required, settle, stop
from tests.jobs.stops.samples import sampled
from tests.jobs.stops.stories import freeze_and_lift_in_spite_of, lift_in_spite_of
from tests.jobs.stops.truths import assert_honest, come_right

SECONDARY = "You have exceeded a secondary rate limit"
FAULTS: dict[str, dict[str, Any]] = {
    "forbidden": {"kind": "error", "status": 403, "message": "Resource not accessible by integration"},
    "not found": {"kind": "error", "status": 404, "message": "Not Found"},
    "invalid": {"kind": "error", "status": 422, "message": "Validation Failed"},
    "failure": {"kind": "error", "status": 502},
    "applied and failed": {"kind": "error", "status": 502, "after": True},
    "limit": {"kind": "error", "status": 403, "message": SECONDARY, "headers": {"Retry-After": "5"}},
    "lost": {"kind": "disconnect"},
    "applied and lost": {"kind": "disconnect", "after": True},
}
IN_EVERY_RUN = ("applied and lost",)
IN_EVERY_CHECK = ("invalid", "limit", "lost")
READ, WRITE, CREATE, REST = "RulesetBodies", "UpdateRulesets", "CreateRulesets", "/repos/acme/web/rulesets"
PROBES = "graphql query Rules "


@pytest.fixture(params=sampled(FAULTS, quick=IN_EVERY_RUN, checked=IN_EVERY_CHECK))
def fault(request: pytest.FixtureRequest) -> dict[str, Any]:
    return FAULTS[request.param]


@pytest.fixture
def known(web: Harness) -> Harness:
    """Return a harness whose ruleset is there from a former freeze."""
    freeze = web.freeze()
    settle(web)
    web.lift(freeze)
    settle(web)
    return web


def places() -> Iterator[tuple[str, int]]:
    """Yield calls, and how many of them succeed before one does not."""
    yield from ((READ, 0), (WRITE, 0), (WRITE, 1), (REST, 0), (PROBES, 0), (PROBES, 1))


@pytest.mark.parametrize("scope", [CREATE, REST])
def test_first_stop_comes_right_after_any_fault(web: Harness, scope: str, fault: dict[str, Any]) -> None:
    freeze_and_lift_in_spite_of(web, scope=scope, **fault)
    made = [each.enforcement for each in web.fake_github.world.rulesets.values() if each.name.startswith(NAME)]
    assert made in ([], ["disabled"])


@pytest.mark.check
def test_stop_comes_right_after_any_fault_of_a_call(known: Harness, fault: dict[str, Any]) -> None:
    for scope, skip in places():
        freeze_and_lift_in_spite_of(known, scope=scope, skip=skip, count=1, **fault)


def test_stop_of_a_lifted_freeze_ends_after_any_fault(known: Harness, fault: dict[str, Any]) -> None:
    for scope in (READ, WRITE, PROBES):
        lift_in_spite_of(known, required, scope=scope, **fault)
        assert required(known) == []


@pytest.mark.check
def test_stop_of_one_of_two_freezes_ends_after_any_fault(known: Harness, fault: dict[str, Any]) -> None:
    for scope in (READ, WRITE, PROBES):
        first, second = known.freeze(branch(known)), known.freeze(branch(known, "next"))
        stop(known)
        known.fake_github.faults.add(scope=scope, **fault)
        known.lift(second)
        stop(known)
        assert_honest(known)
        known.fake_github.faults.clear()
        come_right(known)
        known.lift(first)
        come_right(known)
