"""Sentences on how many branches of a freeze are blocked: the worst first, and none says more than is known."""

import pytest

from rules.freezes.blocking import CAUSES, STATES, Blocking, BlockingCounts, State
from rules.freezes.blocking_words import BranchNumbers, numbers_of_counts, numbers_of_view


def said(numbers: BranchNumbers) -> list[str]:
    return [statement.text for statement in numbers.statements]


@pytest.mark.parametrize(
    ("states", "texts"),
    [
        ({}, []),
        ({"blocked": 1}, ["The branch is blocked"]),
        ({"blocked": 1361}, ["All 1,361 branches are blocked"]),
        ({"not_blocked": 1}, ["The branch is not blocked"]),
        ({"not_blocked": 3}, ["None of the 3 branches is blocked"]),
        ({"unknown": 1}, ["It is not known whether the branch is blocked"]),
        ({"unknown": 3}, ["It is not known whether the 3 branches are blocked"]),
        ({"partly": 1}, ["The branch is blocked only in part"]),
        ({"partly": 3}, ["All 3 branches are blocked only in part"]),
        (
            {"blocked": 1, "partly": 2, "unknown": 1, "not_blocked": 2},
            [
                "2 of 6 branches are not blocked",
                "It is not known whether 1 of 6 branches is blocked",
                "2 of 6 branches are blocked only in part",
                "1 of 6 branches is blocked",
            ],
        ),
    ],
)
def test_sentences_name_each_state_the_worst_first(states: dict[State, int], texts: list[str]) -> None:
    assert said(BranchNumbers(states)) == texts


def test_sentences_on_all_freezes_say_frozen_branches() -> None:
    assert said(BranchNumbers({"not_blocked": 2}, of_all_freezes=True)) == ["None of the 2 frozen branches is blocked"]
    assert said(BranchNumbers({"blocked": 1}, of_all_freezes=True)) == ["The frozen branch is blocked"]


def test_sentences_say_so_far_before_the_freeze_is_enforced() -> None:
    assert said(BranchNumbers({"blocked": 3}, complete=False)) == ["All 3 branches so far are blocked"]
    assert said(BranchNumbers({"partly": 1, "blocked": 2}, complete=False))[1] == "2 of 3 branches are blocked"


@pytest.mark.parametrize("cause", sorted(CAUSES))
def test_branches_are_not_blocked_yet_while_checks_are_written_in_time(cause: str) -> None:
    state: State = "unknown" if cause in {"not_read", "outdated"} else "not_blocked"
    counts = BlockingCounts()
    counts.add(Blocking(state, cause), 2, late=False)
    [statement] = numbers_of_counts(counts).statements
    assert (statement.passing, statement.text.endswith(" yet")) == ((cause == "writing",) * 2)
    counts.add(Blocking("not_blocked", "writing"), 1, late=True)
    assert not any(each.passing or each.text.endswith(" yet") for each in numbers_of_counts(counts).statements)


def test_numbers_of_the_contract_are_those_of_the_counts() -> None:
    counts = BlockingCounts()
    for branches, state in enumerate(STATES, 1):
        counts.add(Blocking(state, "writing" if state == "not_blocked" else None), branches, late=False)
    view = {"unprotected": 1, "unknown": 2, "partly": 3, "blocked": 4, "late": 0}
    gaps = [{"state": "not_blocked", "code": "writing"}]
    shown, counted = numbers_of_view(view, gaps), numbers_of_counts(counts)
    assert shown.statements == counted.statements
    assert shown.statements[0].text == "1 of 10 branches is not blocked yet"
