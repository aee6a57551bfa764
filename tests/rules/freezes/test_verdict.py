"""Verdicts: a head is allowed only if every way that it could take is allowed."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.freezes.verdict import CoveringFreeze, Grant, MergeCandidate, judge

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def freeze(name: str) -> CoveringFreeze:
    return CoveringFreeze(name, f"Because of {name}", NOON - HOUR, None)


A, B = freeze("frz_a"), freeze("frz_b")


@pytest.mark.parametrize(
    ("claims", "blocking", "branches"),
    [
        pytest.param([], (), (), id="nothing forbids a head that nobody claims"),
        pytest.param([MergeCandidate("main", 1, ())], (), (), id="no freeze, no block"),
        pytest.param([MergeCandidate("main", 1, (A,))], (A,), ("main",), id="a freeze blocks"),
        pytest.param([MergeCandidate("main", 1, (A, B))], (A, B), ("main",), id="every freeze is named"),
        pytest.param([MergeCandidate("main", 1, (A,), frozenset({"frz_a"}))], (), (), id="an exception lets through"),
        pytest.param(
            [MergeCandidate("main", 1, (A, B), frozenset({"frz_a"}))],
            (B,),
            ("main",),
            id="an exception of one freeze leaves the other",
        ),
        pytest.param(
            [MergeCandidate("main", 1, ()), MergeCandidate("release/1", 2, (A,))],
            (A,),
            ("release/1",),
            id="one frozen base of a shared head is enough",
        ),
        pytest.param(
            [MergeCandidate("main", 1, (A,), frozenset({"frz_a"})), MergeCandidate("main", 2, (A,))],
            (A,),
            ("main",),
            id="two pull requests with one head need both an exception",
        ),
        pytest.param(
            [MergeCandidate("main", 1, (A,)), MergeCandidate("release/1", 2, (A,))],
            (A,),
            ("main", "release/1"),
            id="a freeze of two bases is told once",
        ),
        pytest.param(
            [MergeCandidate("main", None, (A,), frozenset({"frz_a"}), members_known=False)],
            (A,),
            ("main",),
            id="no exception counts while a queue's members are unknown",
        ),
        pytest.param(
            [MergeCandidate("main", None, (), members_known=False)],
            (),
            (),
            id="unknown members of an unfrozen queue pass",
        ),
    ],
)
def test_verdict_names_blocking_freezes_and_branches(
    claims: list[MergeCandidate], blocking: tuple[CoveringFreeze, ...], branches: tuple[str, ...]
) -> None:
    verdict = judge(claims)
    assert (verdict.blocking, verdict.branches) == (blocking, branches)
    assert verdict.conclusion == ("failure" if blocking else "success")


FREEZES = st.lists(st.sampled_from([A, B, freeze("frz_c")]), unique=True, max_size=3)
NAMES = st.sampled_from(["frz_a", "frz_b", "frz_c"])
GRANTS = st.lists(st.builds(Grant, NAMES, st.integers(1, 9), st.just("Ada"), st.none()), max_size=2)
CLAIMS = st.lists(
    st.builds(
        MergeCandidate,
        st.sampled_from(["main", "release/1"]),
        st.integers(1, 9),
        FREEZES,
        st.frozensets(NAMES),
        st.booleans(),
        GRANTS,
    ),
    max_size=4,
)


@given(CLAIMS)
def test_allowed_head_is_allowed_for_each_candidate_alone(claims: list[MergeCandidate]) -> None:
    alone = [judge([claim]).conclusion for claim in claims]
    assert (judge(claims).conclusion == "success") is all(conclusion == "success" for conclusion in alone)


@given(CLAIMS, CLAIMS)
def test_further_candidate_never_allows_a_blocked_head(
    claims: list[MergeCandidate], more: list[MergeCandidate]
) -> None:
    if judge(claims).blocking:
        assert judge([*claims, *more]).blocking


@given(CLAIMS)
def test_order_of_candidates_does_not_matter(claims: list[MergeCandidate]) -> None:
    assert judge(claims) == judge(claims[::-1])
