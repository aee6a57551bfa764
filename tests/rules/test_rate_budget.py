"""How much may be sent: never more than a limit in any window of its length, wherever the code host begins to count."""

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
    RateLimits,
    background_wait,
    content_of,
    grant_checks,
    stricter_counting,
    wait_for_query,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
LIMITS = RateLimits(content_per_minute=80, content_per_hour=500, points_per_minute=1800)


def at(seconds: float, content: int = 0, points: int = MUTATION_POINTS) -> ApiUsage:
    return ApiUsage(NOON - timedelta(seconds=seconds), points, content)


class TestRoom:
    def test_without_anything_spent_there_is_all_the_room(self) -> None:
        assert grant_checks(LIMITS, "aliases", [], NOON, 25) == (25, NO_WAIT)

    def test_the_last_of_a_minute_is_used_up_to_the_last_check(self) -> None:
        assert grant_checks(LIMITS, "aliases", [at(30, content=75)], NOON, 25).checks == 5

    def test_a_minute_that_is_used_up_is_waited_for(self) -> None:
        room = grant_checks(LIMITS, "aliases", [at(40, content=50), at(30, content=30)], NOON, 25)
        assert room == (0, MINUTE - timedelta(seconds=40))

    def test_an_hour_that_is_used_up_is_waited_for_longer(self) -> None:
        usage = [at(3000, content=250), at(1000, content=250)]
        assert grant_checks(LIMITS, "aliases", usage, NOON, 25) == (0, HOUR - timedelta(seconds=3000))

    def test_where_requests_count_a_whole_batch_takes_the_room_of_one(self) -> None:
        assert grant_checks(LIMITS, "requests", [at(1, content=79)], NOON, 25).checks == 25
        assert grant_checks(LIMITS, "requests", [at(1, content=80)], NOON, 25).checks == 0

    def test_points_are_kept_whatever_counts_as_content(self) -> None:
        usage = [at(10, points=1796)]
        assert grant_checks(LIMITS, "off", usage, NOON, 25) == (0, MINUTE - timedelta(seconds=10))
        assert wait_for_query(LIMITS, usage, NOON) == NO_WAIT
        assert wait_for_query(LIMITS, [at(10, points=1800)], NOON) == MINUTE - timedelta(seconds=10)


class TestTheShareOfWhatNobodysMergeWaitsFor:
    def wait(self, *usage: ApiUsage, writes: bool, counting: Counting = "off") -> timedelta:
        return background_wait(LIMITS, counting, usage, NOON, writes=writes)

    def test_without_anything_spent_there_is_room(self) -> None:
        assert self.wait(writes=True) == self.wait(writes=False) == NO_WAIT

    def test_writing_ends_first_then_reading_and_half_of_the_minute_is_left_to_verdicts(self) -> None:
        assert self.wait(at(10, points=715), writes=True) == NO_WAIT
        assert self.wait(at(10, points=716), writes=True) == MINUTE - timedelta(seconds=10)
        assert self.wait(at(10, points=899), writes=False) == NO_WAIT
        assert self.wait(at(10, points=900), writes=False) == MINUTE - timedelta(seconds=10)
        assert grant_checks(LIMITS, "off", [at(10, points=900)], NOON, 25).checks == 25

    def test_whoever_has_to_wait_waits_for_more_than_one_call(self) -> None:
        assert self.wait(at(61, points=900), writes=False) == MIN_BACKGROUND_WAIT

    @pytest.mark.parametrize("counting", ["requests", "aliases"])
    def test_content_is_shared_as_well_once_it_counts(self, counting: Counting) -> None:
        assert self.wait(at(10, content=31), writes=True, counting=counting) == NO_WAIT
        assert self.wait(at(10, content=32), writes=True, counting=counting) == MINUTE - timedelta(seconds=10)
        assert self.wait(at(900, content=200), writes=True, counting=counting) == HOUR - timedelta(seconds=900)
        assert self.wait(at(10, content=80), writes=False, counting=counting) == NO_WAIT

    def test_the_smallest_limits_leave_room_for_one_call_and_not_for_two(self) -> None:
        smallest = RateLimits("aliases", content_per_minute=1, content_per_hour=1, points_per_minute=10)
        for writes in (True, False):
            assert background_wait(smallest, "aliases", [], NOON, writes=writes) == NO_WAIT
            assert background_wait(smallest, "aliases", [at(10, content=1)], NOON, writes=writes) > NO_WAIT


@given(
    wishes=st.lists(st.tuples(st.floats(0, 90), st.integers(1, 25)), max_size=120),
    counting=st.sampled_from(["requests", "aliases"]),
)
def test_whoever_asks_first_is_never_refused_by_a_code_host_that_counts_from_any_moment(
    wishes: list[tuple[float, int]], counting: Counting
) -> None:
    now, usage = NOON, list[ApiUsage]()
    for pause, wanted in wishes:
        now += timedelta(seconds=pause)
        room = grant_checks(LIMITS, counting, [one for one in usage if one.at > now - HOUR], now, wanted)
        assert room.checks <= wanted
        assert bool(room.checks) != bool(room.wait)
        if room.checks:
            usage.append(ApiUsage(now, MUTATION_POINTS, content_of(counting, room.checks)))
    for length, most in ((timedelta(minutes=1), 80), (timedelta(hours=1), 500)):
        for first in usage:
            assert sum(one.content for one in usage if first.at <= one.at < first.at + length) <= most


@given(usage=st.lists(st.integers(1, 80), min_size=1, max_size=60))
def test_after_the_wait_there_is_room(usage: list[int]) -> None:
    done = [at(60 - index, content=content) for index, content in enumerate(usage)]
    room = grant_checks(LIMITS, "aliases", done, NOON, 25)
    if not room.checks:
        assert grant_checks(LIMITS, "aliases", done, NOON + room.wait, 25).checks > 0


@pytest.mark.parametrize(
    ("before", "mutations", "after"),
    [
        pytest.param("off", 81, "requests", id="more requests than a minute allows explain a refusal"),
        pytest.param("off", 40, "aliases", id="few requests do not, so their checks must have been counted"),
        pytest.param("requests", 10, "aliases", id="a refusal although requests were counted"),
        pytest.param("aliases", 10, "aliases", id="nothing is stricter"),
    ],
)
def test_a_refusal_teaches_how_content_is_counted(before: Counting, mutations: int, after: Counting) -> None:
    usage = [at(30) for _ in range(mutations)]
    assert stricter_counting(before, usage, NOON, LIMITS) == after
