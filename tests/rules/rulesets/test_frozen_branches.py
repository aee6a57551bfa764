"""The ruleset of frozen branches: what it names, and what is put right in it."""

from typing import Any

import pytest

from rules.errors import ServiceError
from rules.freezes.branch_names import branch_name_error
from rules.freezes.globs import compile_globs
from rules.rulesets.frozen_branches import (
    NAME,
    free_name,
    is_as_written,
    restored_ruleset,
    wanted_ruleset,
    without_our_rules,
)
from tools.fake_github.model.rulesets import matches_pattern, validate

BRANCHES = ("main", "release/1.x")
BOTH = [{"type": "creation"}, {"type": "deletion"}]
ADDED = {"type": "non_fast_forward"}


def include(ruleset: dict[str, Any]) -> list[str]:
    found: list[str] = ruleset["conditions"]["ref_name"]["include"]
    return found


def test_ruleset_names_exactly_the_frozen_branches() -> None:
    ruleset = wanted_ruleset(["release/1.x", "main"])
    validate(ruleset, "Repository")
    assert include(ruleset) == ["refs/heads/main", "refs/heads/release/1.x"]
    assert (ruleset["enforcement"], ruleset["rules"], ruleset["bypass_actors"]) == ("active", BOTH, [])


def test_ruleset_without_frozen_branches_is_disabled_and_empty() -> None:
    ruleset = wanted_ruleset([])
    validate(ruleset, "Repository")
    assert (ruleset["enforcement"], include(ruleset)) == ("disabled", [])


@pytest.mark.parametrize("branch", ["what[x]", "a]b", "main"])
def test_branch_with_special_characters_is_named_alone(branch: str) -> None:
    [pattern] = include(wanted_ruleset([branch]))
    assert matches_pattern(pattern, branch, "main")
    assert not matches_pattern(pattern, branch.replace("[x]", "x"), "main") or "[x]" not in branch


def test_no_branch_and_no_pattern_has_a_ruleset_of_this_name() -> None:
    name = NAME.removeprefix("Change freeze: ")
    assert branch_name_error(name) is not None
    with pytest.raises(ServiceError):
        compile_globs([name], "branch", "/patterns")


def test_ruleset_that_is_as_wanted_does_not_change() -> None:
    ruleset = {**wanted_ruleset(BRANCHES), "id": 7, "updated_at": "2026-11-21T15:30:00Z", "name": "Renamed"}
    ruleset["conditions"] = {"ref_name": {"include": include(ruleset)[::-1], "exclude": []}}
    assert restored_ruleset(ruleset, BRANCHES).items() <= ruleset.items()


@pytest.mark.parametrize(
    "loosened",
    [
        {"enforcement": "disabled"},
        {"enforcement": "evaluate"},
        {"bypass_actors": [{"actor_type": "OrganizationAdmin"}]},
        {"conditions": {"ref_name": {"include": ["refs/heads/main"], "exclude": []}}},
        {"conditions": {"ref_name": {"include": include(wanted_ruleset(BRANCHES)), "exclude": ["refs/heads/main"]}}},
        {"rules": [{"type": "creation"}]},
        {"rules": []},
    ],
    ids=str,
)
def test_loosened_ruleset_is_restored(loosened: dict[str, Any]) -> None:
    wanted = wanted_ruleset(BRANCHES)
    assert restored_ruleset({**wanted, **loosened}, BRANCHES) == wanted


def test_rules_and_name_that_people_gave_stay() -> None:
    ruleset = {**wanted_ruleset(BRANCHES), "name": "Renamed", "rules": [*BOTH, ADDED]}
    after = restored_ruleset(ruleset, [])
    assert (after["name"], after["rules"], after["enforcement"]) == ("Renamed", [*BOTH, ADDED], "disabled")


def test_branch_that_people_added_is_removed() -> None:
    ruleset = wanted_ruleset([*BRANCHES, "feature"])
    assert include(restored_ruleset(ruleset, BRANCHES)) == include(wanted_ruleset(BRANCHES))


def test_removal_keeps_rules_of_people_alone() -> None:
    ruleset = wanted_ruleset(BRANCHES)
    assert without_our_rules(ruleset) is None
    assert without_our_rules({**ruleset, "rules": [*BOTH, ADDED]}) == {**ruleset, "rules": [ADDED]}


@pytest.mark.parametrize(
    "other",
    [{"name": "Theirs"}, {"rules": [*BOTH, ADDED]}, {"rules": BOTH[:1]}, {"enforcement": "disabled"}],
    ids=str,
)
def test_only_what_was_sent_is_recognised(other: dict[str, Any]) -> None:
    written = wanted_ruleset(BRANCHES)
    assert is_as_written({**written, "id": 7, "rules": BOTH[::-1]}, written)
    assert not is_as_written({**written, **other}, written)
    assert not is_as_written(wanted_ruleset(["main"]), written)


def test_name_that_others_have_is_numbered() -> None:
    assert free_name(["Change freeze: main"]) == NAME
    assert free_name([NAME, f"{NAME} (2)"]) == f"{NAME} (3)"
