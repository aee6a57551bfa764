"""Verdicts: a head is allowed only if every way that it could take is allowed."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rules.freezes.verdict import CoveringFreeze, Grant, MergeCandidate, judge, judge_for_pattern
from rules.time.planned_windows import PlannedWindow

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def freeze(name: str) -> CoveringFreeze:
    return CoveringFreeze(name, f"Because of {name}", NOON - HOUR, None)


def timed(name: str, start: int, end: int) -> CoveringFreeze:
    return CoveringFreeze(name, f"Because of {name}", NOON + start * HOUR, NOON + end * HOUR)


def window(start: int, end: int) -> PlannedWindow:
    return PlannedWindow(f"occ_{start}", "sch_1", {"type": "organization"}, NOON + start * HOUR, NOON + end * HOUR)


A, B = freeze("frz_a"), freeze("frz_b")
A_UNTIL_NOON = CoveringFreeze("frz_a", "Until noon", NOON - HOUR, NOON)


@pytest.mark.parametrize(
    ("claims", "blocking", "branches"),
    [
        pytest.param([], (), (), id="no candidate, no block"),
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
            id="a freeze of two bases is named once",
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


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(MergeCandidate("main", 1, (), planned=(window(1, 2),)), 1, id="a window begins"),
        pytest.param(MergeCandidate("main", 1, (timed("frz_1", -1, 1),)), 1, id="a freeze ends"),
        pytest.param(
            MergeCandidate("main", 1, (timed("frz_1", -1, 1),), planned=(window(1, 2), window(3, 4))),
            2,
            id="a window follows at once",
        ),
        pytest.param(
            MergeCandidate(
                "main",
                1,
                (timed("frz_1", -1, 1),),
                frozenset({"frz_1"}),
                grants=(Grant("frz_1", 1, "Ada", None),),
                planned=(window(2, 3),),
            ),
            2,
            id="an exception of a freeze is none of a later window",
        ),
        pytest.param(
            MergeCandidate(
                "main",
                2,
                (timed("frz_1", -1, 5),),
                frozenset({"frz_1"}),
                grants=(Grant("frz_1", 1, "Ada", NOON + HOUR), Grant("frz_1", 2, "Ada", None)),
            ),
            1,
            id="the exception of one member of a queue ends",
        ),
        pytest.param(MergeCandidate("main", 1, (A,), planned=(window(1, 2),)), None, id="a person ends it"),
    ],
)
def test_verdict_knows_its_next_change(claim: MergeCandidate, expected: int | None) -> None:
    assert judge([claim]).changes_at == (None if expected is None else NOON + expected * HOUR)


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


OPEN = MergeCandidate("release/2", 1, ())
FROZEN = MergeCandidate("release/1", 2, (A,))
EXCEPTED = MergeCandidate("release/1", 2, (A,), frozenset({"frz_a"}))


@pytest.mark.parametrize(
    ("candidates", "unprotected", "branches"),
    [
        pytest.param([OPEN], {}, (), id="a head that may enter its branch"),
        pytest.param([FROZEN], {}, ("release/1",), id="a head that may enter none"),
        pytest.param([OPEN, FROZEN], {}, (), id="one branch is enough: the others have checks of their own"),
        pytest.param([OPEN], {"release/1": (A,)}, ("release/1",), id="a frozen sibling without a rule of its own"),
        pytest.param([OPEN, EXCEPTED], {"release/1": (A,)}, (), id="an exception for that sibling"),
        pytest.param([EXCEPTED], {"release/1": (A,)}, (), id="an exception without another branch"),
        pytest.param([EXCEPTED], {"release/3": (B,)}, ("release/3",), id="an exception for another branch"),
        pytest.param([OPEN, FROZEN], {"release/1": (A,)}, ("release/1",), id="an open way beside the blocked one"),
        pytest.param(
            [EXCEPTED, FROZEN], {"release/1": (A,)}, ("release/1",), id="two pull requests need both an exception"
        ),
        pytest.param([OPEN], {"release/1": ()}, (), id="a sibling without a rule that is not frozen"),
    ],
)
def test_pattern_verdict_names_the_branches_that_block(
    candidates: list[MergeCandidate], unprotected: dict[str, tuple[CoveringFreeze, ...]], branches: tuple[str, ...]
) -> None:
    verdict = judge_for_pattern(candidates, unprotected)
    assert (verdict.branches, bool(verdict.blocking)) == (branches, bool(branches))


_NAMES = st.sampled_from(["release/1", "release/2", "release/3"])
_CANDIDATES = st.builds(
    MergeCandidate,
    branch=_NAMES,
    number=st.integers(1, 3),
    freezes=st.sampled_from([(), (A,), (A, B)]),
    excepted=st.sampled_from([frozenset(), frozenset({"frz_a"}), frozenset({"frz_a", "frz_b"})]),
)


@given(st.lists(_CANDIDATES, min_size=1, max_size=4), st.dictionaries(_NAMES, st.sampled_from([(), (A,), (B,)])))
def test_pattern_success_opens_no_frozen_branch_without_a_rule(
    candidates: list[MergeCandidate], unprotected: dict[str, tuple[CoveringFreeze, ...]]
) -> None:
    if judge_for_pattern(candidates, unprotected).conclusion == "success":
        assert any(not candidate.blocking() for candidate in candidates)
        for name, freezes in unprotected.items():
            entering = [candidate for candidate in candidates if candidate.branch == name]
            assert not freezes or (entering and not any(candidate.blocking() for candidate in entering))


HOURS = 6
"""How far ahead the freezes, windows and grants of the next tests may change, in hours after noon."""
_AHEAD = st.integers(1, HOURS).map(lambda hour: NOON + hour * HOUR)
_ENDS = st.none() | _AHEAD
_IN_FORCE = st.builds(CoveringFreeze, st.sampled_from(["frz_a", "frz_b"]), st.just("In force"), st.just(NOON), _ENDS)
_WINDOW = st.sampled_from([window(start, end) for end in range(2, HOURS + 1) for start in range(1, end)])
_TIMED_CANDIDATES = st.builds(
    MergeCandidate,
    branch=st.just("main"),
    number=st.integers(1, 2),
    freezes=st.lists(_IN_FORCE, max_size=2),
    excepted=st.frozensets(st.sampled_from(["frz_a", "frz_b", "frz_c"])),
    members_known=st.booleans(),
    grants=st.lists(
        st.builds(Grant, st.sampled_from(["frz_a", "frz_b"]), st.integers(1, 2), st.just("Ada"), _ENDS), max_size=3
    ),
    planned=st.lists(_WINDOW, max_size=3).map(lambda listed: sorted(listed, key=lambda one: one.starts_at)),
)


def is_blocked(candidate: MergeCandidate, at: datetime) -> bool:
    """True if a freeze that has begun and not ended blocks a candidate, judged from the facts of this instant alone."""

    def is_excepted(freeze: CoveringFreeze) -> bool:
        grants = [grant for grant in candidate.grants if grant.freeze_id == freeze.id]
        valid = {grant.number for grant in grants if grant.expires_at is None or grant.expires_at > at}
        return freeze.id in candidate.excepted and {grant.number for grant in grants} == valid

    return any(each.starts_at <= at < each.ends_at for each in candidate.planned) or any(
        (freeze.ends_at is None or freeze.ends_at > at) and not (candidate.members_known and is_excepted(freeze))
        for freeze in candidate.freezes
    )


@given(st.lists(_TIMED_CANDIDATES, max_size=3))
@example([MergeCandidate("main", 1, (timed("frz_a", -1, 1),), planned=(window(1, 2), window(1, 3)))])
def test_next_change_is_the_first_instant_with_another_conclusion(candidates: list[MergeCandidate]) -> None:
    conclusions = {
        at: any(is_blocked(candidate, at) for candidate in candidates)
        for at in (NOON + hour * HOUR for hour in range(HOURS + 1))
    }
    changes = [at for at, blocked in conclusions.items() if blocked != conclusions[NOON]]
    assert judge(candidates).changes_at == next(iter(changes), None)


class CountedWindow(PlannedWindow):
    """A planned window that counts how often its end is read."""

    reads = 0

    def __getattribute__(self, name: str) -> Any:
        CountedWindow.reads += name == "ends_at"
        return super().__getattribute__(name)


def counted(gap: int) -> list[PlannedWindow]:
    """Return a thousand windows of an hour, with so many hours from start to start."""
    CountedWindow.reads = 0
    starts = (NOON + number * gap * HOUR for number in range(1000))
    return [CountedWindow(f"occ_{start}", "sch_1", {}, start, start + HOUR) for start in starts]


def test_next_change_reads_each_planned_window_a_few_times_only() -> None:
    windows = counted(gap=1)
    assert judge([MergeCandidate("main", 1, (A_UNTIL_NOON,), planned=windows)]).changes_at == NOON + 1000 * HOUR
    assert 1000 <= CountedWindow.reads <= 5000


@pytest.mark.parametrize(
    ("freezes", "expected"),
    [
        pytest.param((A_UNTIL_NOON,), NOON + HOUR, id="a window follows, and then none at once"),
        pytest.param((A,), None, id="a person ends it"),
        pytest.param((), NOON, id="a window begins"),
    ],
)
def test_next_change_reads_no_windows_after_it(freezes: tuple[CoveringFreeze, ...], expected: datetime | None) -> None:
    windows = counted(gap=24)
    assert judge([MergeCandidate("main", 1, freezes, planned=windows)]).changes_at == expected
    assert CountedWindow.reads <= 5
