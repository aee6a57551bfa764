"""Stops of many repositories are written in batches: a freeze counts as blocked with the last, and no sooner."""

import pytest

from services.enforcement.stops import stop_due
from tests.harness.github_harness import Harness
from tests.jobs.probes.requests import look
from tests.jobs.setup.requests import done
from tests.jobs.stops.requests import MANY, on, open_repositories, required, settle, stop_from, times


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.enforcement.stops.MAX_REPOSITORIES", 2)


def steps(harness: Harness) -> list[bool]:
    """Stop what has to be stopped; return of each step whether the freeze counted as blocked after it."""
    blocked = []
    while stop_due(harness.jobs, harness.github):
        blocked.append(times(harness).blocked_at is not None)
        assert not (blocked[-1] and open_repositories(harness))
    return blocked


def test_freeze_is_blocked_as_soon_as_no_repository_is_open(many: Harness) -> None:
    stop_from(many, shared_above=len(MANY))
    many.freeze(on("main"))
    blocked = steps(many)
    assert blocked.count(False) > 1
    assert blocked[-1]


def test_repository_that_needs_no_stop_is_not_waited_for(many: Harness) -> None:
    stop_from(many, shared_above=len(MANY))
    done(many, "empty", pulls=0)
    look(many)
    settle(many)
    many.freeze(on("main"))
    assert steps(many)[-1]
    assert required(many, "empty") == []


def test_requests_carry_a_part_of_a_batch(many: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.enforcement.stops.MAX_REPOSITORIES", 100)
    monkeypatch.setattr("services.enforcement.stop_batches.RULESETS_PER_REQUEST", 2)
    stop_from(many, shared_above=len(MANY))
    freeze = many.freeze(on("main"))
    assert steps(many)[-1]
    many.lift(freeze)
    settle(many)
    assert open_repositories(many) == list(MANY)
