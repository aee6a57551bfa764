"""The rate budget: never more than a limit in any window of its length, whenever GitHub begins to count."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.rate_budget import (
    HOUR,
    MIN_BACKGROUND_WAIT,
    MINUTE,
    MUTATION_POINTS,
    NO_WAIT,
    ApiUsage,
    Counting,
    GitHubLimits,
    background_wait,
    content_of,
    grant_checks,
    stricter_counting,
    wait_for_query,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
LIMITS = GitHubLimits(content_per_minute=80, content_per_hour=500, points_per_minute=1800)


def at(seconds: float, content: int = 0, points: int = MUTATION_POINTS) -> ApiUsage:
    return ApiUsage(NOON - timedelta(seconds=seconds), points, content)


class TestCheckBudget:
    def test_full_budget_is_granted_without_usage(self) -> None:
        assert grant_checks(LIMITS, "aliases", [], NOON, 25) == (25, NO_WAIT)

    def test_remaining_budget_of_a_minute_is_granted(self) -> None:
        assert grant_checks(LIMITS, "aliases", [at(30, content=75)], NOON, 25).checks == 5

    def test_batch_waits_when_the_minute_is_exhausted(self) -> None:
        grant = grant_checks(LIMITS, "aliases", [at(40, content=50), at(30, content=30)], NOON, 25)
        assert grant == (0, MINUTE - timedelta(seconds=40))

    def test_batch_waits_when_the_hour_is_exhausted(self) -> None:
        usage = [at(3000, content=250), at(1000, content=250)]
        assert grant_checks(LIMITS, "aliases", usage, NOON, 25) == (0, HOUR - timedelta(seconds=3000))

    def test_whole_batch_counts_once_when_requests_are_counted(self) -> None:
        assert grant_checks(LIMITS, "requests", [at(1, content=79)], NOON, 25).checks == 25
        assert grant_checks(LIMITS, "requests", [at(1, content=80)], NOON, 25).checks == 0

    def test_points_limit_applies_whatever_counts_as_content(self) -> None:
        usage = [at(10, points=1796)]
        assert grant_checks(LIMITS, "off", usage, NOON, 25) == (0, MINUTE - timedelta(seconds=10))
        assert wait_for_query(LIMITS, usage, NOON) == NO_WAIT
        assert wait_for_query(LIMITS, [at(10, points=1800)], NOON) == MINUTE - timedelta(seconds=10)


class TestBackgroundShare:
    def wait(self, *usage: ApiUsage, writes: bool, counting: Counting = "off") -> timedelta:
        return background_wait(LIMITS, counting, usage, NOON, writes=writes)

    def test_background_call_does_not_wait_without_usage(self) -> None:
        assert self.wait(writes=True) == self.wait(writes=False) == NO_WAIT

    def test_background_share_leaves_half_of_the_minute_to_verdicts(self) -> None:
        assert self.wait(at(10, points=715), writes=True) == NO_WAIT
        assert self.wait(at(10, points=716), writes=True) == MINUTE - timedelta(seconds=10)
        assert self.wait(at(10, points=899), writes=False) == NO_WAIT
        assert self.wait(at(10, points=900), writes=False) == MINUTE - timedelta(seconds=10)
        assert grant_checks(LIMITS, "off", [at(10, points=900)], NOON, 25).checks == 25

    def test_background_wait_has_a_minimum(self) -> None:
        assert self.wait(at(61, points=900), writes=False) == MIN_BACKGROUND_WAIT

    @pytest.mark.parametrize("counting", ["requests", "aliases"])
    def test_background_share_applies_to_content_once_it_is_counted(self, counting: Counting) -> None:
        assert self.wait(at(10, content=31), writes=True, counting=counting) == NO_WAIT
        assert self.wait(at(10, content=32), writes=True, counting=counting) == MINUTE - timedelta(seconds=10)
        assert self.wait(at(900, content=200), writes=True, counting=counting) == HOUR - timedelta(seconds=900)
        assert self.wait(at(10, content=80), writes=False, counting=counting) == NO_WAIT

    def test_smallest_limits_allow_one_background_call_and_not_two(self) -> None:
        smallest = GitHubLimits("aliases", content_per_minute=1, content_per_hour=1, points_per_minute=10)
        for writes in (True, False):
            assert background_wait(smallest, "aliases", [], NOON, writes=writes) == NO_WAIT
            assert background_wait(smallest, "aliases", [at(10, content=1)], NOON, writes=writes) > NO_WAIT


@given(
    wishes=st.lists(st.tuples(st.floats(0, 90), st.integers(1, 25)), max_size=120),
    counting=st.sampled_from(["requests", "aliases"]),
)
def test_granted_checks_never_exceed_a_limit_in_any_window(wishes: list[tuple[float, int]], counting: Counting) -> None:
    now, usage = NOON, list[ApiUsage]()
    for pause, wanted in wishes:
        now += timedelta(seconds=pause)
        grant = grant_checks(LIMITS, counting, [one for one in usage if one.at > now - HOUR], now, wanted)
        assert grant.checks <= wanted
        assert bool(grant.checks) != bool(grant.wait)
        if grant.checks:
            usage.append(ApiUsage(now, MUTATION_POINTS, content_of(counting, grant.checks)))
    for length, most in ((timedelta(minutes=1), 80), (timedelta(hours=1), 500)):
        for first in usage:
            assert sum(one.content for one in usage if first.at <= one.at < first.at + length) <= most


@given(usage=st.lists(st.integers(1, 80), min_size=1, max_size=60))
def test_checks_are_granted_after_the_wait(usage: list[int]) -> None:
    done = [at(60 - index, content=content) for index, content in enumerate(usage)]
    grant = grant_checks(LIMITS, "aliases", done, NOON, 25)
    if not grant.checks:
        assert grant_checks(LIMITS, "aliases", done, NOON + grant.wait, 25).checks > 0


@pytest.mark.parametrize(
    ("before", "mutations", "after"),
    [
        pytest.param("off", 81, "requests", id="more requests than a minute allows explain a refusal"),
        pytest.param("off", 40, "aliases", id="few requests do not, so their checks must have been counted"),
        pytest.param("requests", 10, "aliases", id="a refusal although requests were counted"),
        pytest.param("aliases", 10, "aliases", id="nothing is stricter"),
    ],
)
def test_refusal_makes_counting_stricter(before: Counting, mutations: int, after: Counting) -> None:
    usage = [at(30) for _ in range(mutations)]
    assert stricter_counting(before, usage, NOON, LIMITS) == after
