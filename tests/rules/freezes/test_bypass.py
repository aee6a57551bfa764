"""Bypass detection: which commits on a frozen branch are reported, and with whom."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.freezes.bypass import Classification, ExceptionPeriod, FreezePeriod, Push, Run, classify

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HEAD, GROUP = "a" * 40, "b" * 40
FREEZE = FreezePeriod("frz_a", NOON, None)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def merged(seconds: int, how: str = "pr_merge", head: str | None = HEAD) -> Push:
    return Push(GROUP, at(seconds), "ada", how, 7, head)


def pushed(seconds: int, how: str = "push") -> Push:
    return Push(GROUP, at(seconds), "ada", how)


def run(conclusion: str, seconds: int, number: int = 1, sha: str = HEAD) -> Run:
    return Run(number, sha, conclusion, at(seconds))


def failure(seconds: int, number: int = 1, sha: str = HEAD) -> Run:
    return run("failure", seconds, number, sha)


def success(seconds: int, number: int = 1, sha: str = HEAD) -> Run:
    return run("success", seconds, number, sha)


@pytest.mark.parametrize(
    ("push", "runs", "kind", "delay"),
    [
        pytest.param(pushed(9), [], "bypassed", None, id="a direct push goes around the check"),
        pytest.param(pushed(9, "force_push"), [], "bypassed", None, id="a forced push does too"),
        pytest.param(
            pushed(9, "branch_creation"), [], "bypassed", None, id="and so does a branch that is created again"
        ),
        pytest.param(merged(9), [failure(3)], "bypassed", None, id="a merge after the failure was shown"),
        pytest.param(merged(3), [failure(3)], "landed_before_block", 3, id="within its second it accuses no one"),
        pytest.param(merged(2), [failure(3)], "landed_before_block", 2, id="before it, it was our delay"),
        pytest.param(
            merged(2), [success(-60), failure(3, 2)], "landed_before_block", 2, id="a head that was green before"
        ),
        pytest.param(
            merged(9), [success(-60), failure(3, 2)], "bypassed", None, id="a head that was green before and then not"
        ),
        pytest.param(
            merged(9), [failure(3), success(5, 2)], "enforcement_gap", None, id="a success that was sent too late"
        ),
        pytest.param(
            merged(9), [failure(3), success(5, 2), failure(7, 3)], "bypassed", None, id="a gap that was closed in time"
        ),
        pytest.param(
            merged(7), [failure(3), success(5, 2), failure(7, 3)], "enforcement_gap", None, id="a gap closed too late"
        ),
        pytest.param(
            merged(5), [failure(3), success(5, 2)], "enforcement_gap", None, id="a success of that second lets through"
        ),
        pytest.param(
            merged(9), [failure(3), success(3, 2)], "enforcement_gap", None, id="the newer of two runs of one second"
        ),
        pytest.param(
            merged(9),
            [failure(-60)],
            "landed_before_block",
            9,
            id="a failure of an earlier freeze was about another one",
        ),
        pytest.param(merged(9), [], "landed_before_block", 9, id="no check yet"),
        pytest.param(merged(9, head=None), [], "landed_before_block", 9, id="a pull request that GitHub does not name"),
        pytest.param(
            merged(9, "merge_queue_merge"), [failure(3)], "bypassed", None, id="a queue without checks of its own"
        ),
        pytest.param(
            merged(9, "merge_queue_merge"),
            [failure(3), success(-5, 2, GROUP)],
            "landed_before_block",
            9,
            id="a queue goes by its own commit, green since before the freeze",
        ),
        pytest.param(
            merged(9, "merge_queue_merge"),
            [success(-5), failure(3, 2, GROUP)],
            "bypassed",
            None,
            id="a queue's own commit that had failed",
        ),
        pytest.param(
            merged(9, "merge_queue_merge"),
            [failure(3), success(4, 2, GROUP)],
            "enforcement_gap",
            None,
            id="a queue's own commit that turned green by mistake",
        ),
    ],
)
def test_push_is_classified_by_kind_and_check_runs(push: Push, runs: list[Run], kind: Any, delay: int | None) -> None:
    assert classify(push, runs, [FREEZE]) == Classification(kind, ("frz_a",), delay)


@pytest.mark.parametrize(
    ("runs", "kind"),
    [
        pytest.param([], "bypassed", id="no one merges without a required check, unless let past it"),
        pytest.param([failure(-60)], "bypassed", id="nor with one that failed long ago"),
        pytest.param([failure(9)], "bypassed", id="nor with one that comes in that second"),
        pytest.param([success(-60)], "landed_before_block", id="a green one lets through"),
    ],
)
def test_push_is_classified_by_check_runs_when_a_rule_requires_the_check(runs: list[Run], kind: str) -> None:
    found = classify(merged(9), runs, [FREEZE], required=True)
    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize(
    ("freeze", "expected"),
    [
        pytest.param(FreezePeriod("frz_a", at(-60), None), "bypassed", id="in force before and after"),
        pytest.param(FreezePeriod("frz_a", at(0), None), "bypassed", id="in force from the start of that second"),
        pytest.param(FreezePeriod("frz_a", at(0.001), None), "landed_before_block", id="begun within that second"),
        pytest.param(FreezePeriod("frz_a", at(1), None), None, id="begun after it"),
        pytest.param(FreezePeriod("frz_a", at(-60), at(1)), "bypassed", id="ended after it"),
        pytest.param(FreezePeriod("frz_a", at(-60), at(0.999)), None, id="ended within that second"),
        pytest.param(FreezePeriod("frz_a", at(-60), at(-1)), None, id="ended before it"),
    ],
)
def test_push_is_classified_by_the_freezes_in_force_in_its_second(freeze: FreezePeriod, expected: str | None) -> None:
    found = classify(pushed(0), [], [freeze])
    assert (found and found.kind) == expected


class TestExceptions:
    two = (FreezePeriod("frz_a", at(-60), None), FreezePeriod("frz_b", at(-5), None))

    def test_exceptions_from_every_freeze_allow_a_push(self) -> None:
        expected = Classification("excepted", ("frz_a", "frz_b"))
        assert classify(merged(9), [success(-1)], self.two, {"frz_a", "frz_b"}) == expected

    def test_exception_from_one_freeze_leaves_the_other_and_its_delay(self) -> None:
        expected = Classification("landed_before_block", ("frz_b",), 14)
        assert classify(merged(9), [success(-20)], self.two, {"frz_a"}) == expected

    def test_allowed_push_is_no_gap_of_the_freeze_of_its_exception(self) -> None:
        found = classify(merged(9), [success(-20)], self.two, {"frz_a"})
        assert found is not None
        assert found.kind == "landed_before_block"


seconds = st.integers(-5, 5)
all_runs = st.lists(
    st.builds(run, st.sampled_from(["success", "failure"]), seconds, st.integers(1, 99), st.sampled_from([HEAD, GROUP]))
)
covers = st.lists(
    st.builds(
        lambda number, since, length: FreezePeriod(
            f"frz_{number}", at(since / 10), None if length is None else at((since + length) / 10)
        ),
        st.integers(1, 3),
        st.integers(-60, 60),
        st.none() | st.integers(0, 60),
    ),
    max_size=3,
)
merges = st.builds(merged, seconds, st.sampled_from(["pr_merge", "merge_queue_merge"]), st.sampled_from([HEAD, None]))


@given(merges, all_runs, covers)
def test_merge_is_no_bypass_unless_a_failure_was_shown_before(
    push: Push, runs: list[Run], freezes: list[FreezePeriod]
) -> None:
    found = classify(push, runs, freezes)
    if found is not None and found.kind == "bypassed":
        assert any(one.conclusion == "failure" and one.completed_at < push.instant for one in runs)


@given(merges, all_runs, covers, st.booleans())
def test_success_in_the_second_of_a_merge_always_excuses_it(
    push: Push, runs: list[Run], freezes: list[FreezePeriod], required: bool
) -> None:
    green = Run(100, push.commit, "success", push.instant)
    found = classify(push, [*runs, green], freezes, required=required)
    assert found is None or found.kind != "bypassed"


@given(st.one_of(merges, st.builds(pushed, seconds)), all_runs, covers, st.booleans(), st.sets(st.integers(1, 3)))
def test_classification_names_its_freezes_and_only_a_delay_has_seconds(
    push: Push, runs: list[Run], freezes: list[FreezePeriod], required: bool, numbers: set[int]
) -> None:
    excepted = {f"frz_{number}" for number in numbers}
    found = classify(push, runs, freezes, excepted, required=required)
    if found is None:
        return
    assert found.freezes
    assert set(found.freezes) <= {freeze.freeze_id for freeze in freezes}
    assert (set(found.freezes) <= excepted) == (found.kind == "excepted")
    assert (found.delay is not None) == (found.kind == "landed_before_block")
    assert found.delay is None or found.delay >= 0


@given(merges, all_runs, covers, st.booleans())
def test_runs_after_the_push_do_not_change_its_classification(
    push: Push, runs: list[Run], freezes: list[FreezePeriod], required: bool
) -> None:
    earlier = [one for one in runs if one.completed_at <= push.instant]
    assert classify(push, runs, freezes, required=required) == classify(push, earlier, freezes, required=required)


class TestRulesAtTheTime:
    @pytest.mark.parametrize(
        ("push", "runs"),
        [
            pytest.param(merged(9), [failure(3)], id="a merge of a head that failed"),
            pytest.param(merged(9), [], id="a merge of a head without a check"),
            pytest.param(pushed(9), [], id="a push"),
            pytest.param(pushed(9, "force_push"), [], id="a forced push"),
        ],
    )
    def test_change_is_a_bypass_only_where_a_rule_required_the_check(self, push: Push, runs: list[Run]) -> None:
        found = [classify(push, runs, [FREEZE], required=required) for required in (True, False)]
        assert [each and each.kind for each in found] == ["bypassed", "unprotected"]

    @pytest.mark.parametrize(("replaceable", "kind"), [(True, "unprotected"), (False, "bypassed")])
    def test_branch_made_again_is_a_bypass_only_if_rules_forbade_it(self, kind: str, *, replaceable: bool) -> None:
        found = classify(pushed(9, "branch_creation"), [], [FREEZE], required=True, replaceable=replaceable)
        assert found is not None
        assert found.kind == kind

    def test_pushed_commit_that_was_green_is_our_delay(self) -> None:
        found = classify(pushed(9), [success(-60, sha=GROUP)], [FREEZE], required=True)
        assert found is not None
        assert (found.kind, found.delay) == ("landed_before_block", 9)

    @pytest.mark.parametrize(
        ("pinned", "head", "applies"),
        [(None, GROUP, True), (GROUP, HEAD, True), (None, HEAD, False), (HEAD, GROUP, False)],
    )
    def test_exception_applies_to_its_commit_when_that_is_pushed(
        self, pinned: str | None, head: str, *, applies: bool
    ) -> None:
        period = ExceptionPeriod("exc_a", "frz_a", 7, NOON, None, pinned, head)
        assert period.applies_to(pushed(9)) is applies
