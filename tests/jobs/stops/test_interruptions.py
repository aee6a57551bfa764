"""Stops when workers die, and when freezes begin and end between two transactions of a worker."""

import pytest

from services.enforcement.frozen_branches import write_due
from tests.harness.github_harness import Harness
from tests.harness.watched_units import WatchedUnits
from tests.jobs.stops.requests import branch, required, stop, stop_from
from tests.jobs.stops.samples import sampled
from tests.jobs.stops.stories import (
    die_after_lifting,
    die_while_two_freezes_begin,
    freeze_again_while_a_stop_ends,
    lift_before_a_restore_is_confirmed,
    lift_while_a_stop_begins,
)
from tests.jobs.stops.truths import come_right


def wherever(transactions: int) -> pytest.MarkDecorator:
    """Return the mark that runs a test for each of so many transactions; for a sample of them outside `make soak`."""
    numbers = range(1, transactions)
    return pytest.mark.parametrize("transactions", sampled(numbers, quick=numbers[3::8], checked=numbers[1::4]))


@wherever(20)
def test_stop_comes_right_wherever_a_worker_dies(web: Harness, transactions: int) -> None:
    die_while_two_freezes_begin(web, (branch(web), branch(web, "next")), transactions)


@wherever(16)
@pytest.mark.parametrize("lifts", ["both", "one"])
def test_stop_ends_wherever_a_worker_dies(web: Harness, transactions: int, lifts: str) -> None:
    freezes = [web.freeze(branch(web)), web.freeze(branch(web, "next"))]
    die_after_lifting(web, freezes[: 2 if lifts == "both" else 1], transactions)


@wherever(16)
def test_freeze_that_starts_while_a_stop_ends_is_held(web: Harness, transactions: int) -> None:
    freeze_again_while_a_stop_ends(web, branch(web), [web.branches["acme/web:main"].id], transactions)
    web.freeze(branch(web, "next"))
    stop(web)
    assert required(web)
    come_right(web)


@wherever(16)
def test_lift_while_a_stop_begins_frees_the_branch(web: Harness, transactions: int) -> None:
    lift_while_a_stop_begins(web, branch(web), transactions)


@wherever(8)
def test_freeze_that_starts_while_rulesets_are_written_is_stopped(web: Harness, transactions: int) -> None:
    stop_from(web, heads=2)
    few = web.freeze(branch(web))
    units = WatchedUnits(web.jobs, web.freeze, transactions)
    while write_due(units, web.github):
        pass
    if units.begun < transactions:
        web.freeze()
    stop(web)
    assert len(required(web)) == 1
    assert few
    come_right(web)


def test_no_stop_ends_while_a_restore_is_not_confirmed(web: Harness) -> None:
    lift_before_a_restore_is_confirmed(web, required, "frozen_branch_rulesets")
