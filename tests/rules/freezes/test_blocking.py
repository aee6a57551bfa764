"""Blocked means that GitHub refuses: what each fact does to the word, the light and the counts."""

from dataclasses import replace

import pytest

from rules.freezes.blocking import (
    CAUSES,
    GAPS,
    UNKNOWN_CAUSES,
    WAYS,
    BlockingCounts,
    BlockingFacts,
    State,
    blocking_of,
    cause_of,
    light_of,
    state_of,
)
from rules.rulesets.findings import Light

WHOLE = BlockingFacts(removed=False, archived=False, reading="current", required=True, standing=False, open=False)
"""A rule in force requires our check, nothing is open, and no commit has our success."""


@pytest.mark.parametrize(
    ("facts", "state", "gap"),
    [
        pytest.param(WHOLE, "blocked", None, id="a rule in force, and no success"),
        pytest.param(replace(WHOLE, required=False), "not_blocked", "no_rule", id="no rule"),
        pytest.param(replace(WHOLE, standing=True), "not_blocked", "writing", id="a success that stands"),
        pytest.param(replace(WHOLE, removed=True), "not_blocked", "removed", id="the App was removed"),
        pytest.param(replace(WHOLE, open=True), "partly", "deletion", id="a way is open"),
        pytest.param(replace(WHOLE, reading="none"), "unknown", "not_read", id="rules that were never read"),
        pytest.param(replace(WHOLE, reading="old"), "unknown", "outdated", id="rules that were read long ago"),
        pytest.param(replace(WHOLE, archived=True, required=False), "blocked", None, id="an archived repository"),
        pytest.param(replace(WHOLE, archived=True, removed=True), "not_blocked", "removed", id="archived and removed"),
        pytest.param(replace(WHOLE, reading="old", standing=True), "not_blocked", "writing", id="old rules, a success"),
        pytest.param(replace(WHOLE, reading="old", required=False), "unknown", "outdated", id="no rule, long ago"),
        pytest.param(replace(WHOLE, required=False, standing=True), "not_blocked", "no_rule", id="neither"),
        pytest.param(replace(WHOLE, standing=True, stopped=True), "blocked", None, id="a success under a stop"),
        pytest.param(
            replace(WHOLE, required=False, stopped=True), "not_blocked", "no_rule", id="a stop without a rule"
        ),
        pytest.param(
            replace(WHOLE, reading="old", standing=True, stopped=True),
            *("not_blocked", "writing"),
            id="a success under a stop that was read long ago",
        ),
        pytest.param(
            replace(WHOLE, standing=True, stopped=True, open=True), "partly", "deletion", id="a way that a stop leaves"
        ),
    ],
)
def test_state_follows_from_facts(facts: BlockingFacts, state: State, gap: str | None) -> None:
    found = blocking_of(facts, "writing", ["deletion"], 0)
    assert (found.state, list(found.gaps)) == (state, [] if gap is None else [gap])
    assert found.is_enforced is (state in {"blocked", "partly"})
    refusal = "GitHub refuses every change." if gap is None else GAPS[gap]
    assert found.message == (f"{refusal} A stop holds it until the checks are written." if found.by_stop else refusal)


def test_nothing_is_blocked_unless_every_clause_holds() -> None:
    for facts in BlockingFacts.every():
        if state_of(facts) in {"blocked", "partly"} and not facts.archived:
            assert (facts.removed, facts.reading, facts.required) == (False, "current", True)
            assert not facts.standing or facts.stopped


def test_every_fact_survives_its_key() -> None:
    every = list(BlockingFacts.every())
    assert [BlockingFacts.of_key(facts.key) for facts in every] == every
    assert len({facts.key for facts in every}) == len(every) == 192


def test_freeze_that_a_stop_holds_is_blocked_and_not_enforced() -> None:
    counts = BlockingCounts()
    counts.add(blocking_of(WHOLE), 3, late=False)
    assert (counts.is_blocked, counts.is_enforced) == (True, True)
    counts.add(blocking_of(replace(WHOLE, standing=True, stopped=True)), 1, late=False)
    assert (counts.is_blocked, counts.is_enforced, counts.by_stop) == (True, False, 1)


@pytest.mark.parametrize("found", ["green", "amber", "red"])
@pytest.mark.parametrize(
    ("facts", "at_best"),
    [
        (WHOLE, "green"),
        (replace(WHOLE, open=True), "amber"),
        (replace(WHOLE, reading="none"), "amber"),
        (replace(WHOLE, standing=True), "red"),
        (replace(WHOLE, removed=True), "red"),
        (replace(WHOLE, required=False), "red"),
    ],
)
def test_light_is_the_worse_of_blocking_and_findings(facts: BlockingFacts, at_best: Light, found: Light) -> None:
    order = ["green", "amber", "red"]
    assert light_of(facts, found) == max(at_best, found, key=order.index)


@pytest.mark.parametrize(
    ("actors", "said"),
    [(0, "."), (None, "; who may bypass the rule is not visible."), (1, ", except by one actor"), (3, ", except by 3")],
)
def test_people_who_may_bypass_are_named_beside_the_blocking(actors: int | None, said: str) -> None:
    found = blocking_of(WHOLE, bypass_actors=actors)
    assert found.state == "blocked"
    assert found.message.startswith(f"GitHub refuses every change{said}")


def test_counts_add_up_and_name_the_worst_gap_first() -> None:
    counts = BlockingCounts()
    counts.add(blocking_of(WHOLE), 5, late=False)
    counts.add(blocking_of(replace(WHOLE, open=True), ways=["forgery", "deletion"]), 2, late=False)
    counts.add(blocking_of(replace(WHOLE, reading="none")), 1, late=False)
    assert (counts.is_enforced, counts.reported_causes) == (False, [])
    outdated = BlockingCounts()
    outdated.add(blocking_of(replace(WHOLE, reading="old")), 1, late=False)
    assert (outdated.is_enforced, outdated.reported_causes) == (False, ["outdated"])
    counts.add(blocking_of(replace(WHOLE, standing=True), "rate_limit"), 3, late=True)
    counts.add(blocking_of(replace(WHOLE, required=False)), 4, late=True)
    assert counts.states == {"blocked": 5, "partly": 2, "unknown": 1, "not_blocked": 7}
    assert counts.worst_gaps == [
        ("not_blocked", "no_rule", 4),
        ("not_blocked", "rate_limit", 3),
        ("unknown", "not_read", 1),
        ("partly", "deletion", 2),
        ("partly", "forgery", 2),
    ]
    assert (counts.late, counts.reported_causes) == (3, ["late", "no_rule"])


def test_only_blocked_and_partly_blocked_branches_are_enforced() -> None:
    counts = BlockingCounts()
    assert counts.is_enforced
    counts.add(blocking_of(replace(WHOLE, open=True)), 1, late=False)
    assert counts.is_enforced
    counts.add(blocking_of(replace(WHOLE, reading="old")), 1, late=False)
    assert not counts.is_enforced


def test_causes_of_unknown_branches_are_of_these_alone() -> None:
    causes = {(state_of(facts), cause_of(facts, "writing")) for facts in BlockingFacts.every()}
    assert {cause for state, cause in causes if state == "unknown"} == UNKNOWN_CAUSES
    assert {cause for state, cause in causes if state == "not_blocked"}.isdisjoint(UNKNOWN_CAUSES)


def test_every_gap_has_words_of_its_own() -> None:
    assert len(set(GAPS.values())) == len(GAPS) == len(CAUSES) + len(WAYS)
