"""Which check decides whether a head may enter, and which ways into a frozen branch the rules leave open."""

from dataclasses import replace
from typing import Any

import pytest

from rules.rulesets.enforcement import ActiveRule, BranchFacts, RequiredCheck, Ruleset, evaluate

OWN, PATTERN = "change-freeze/release/1", "change-freeze/release/*"
APP, OTHER = 42, 99
OURS = Ruleset(7301, "Change freeze", "active", "repository", ())
DISABLED = replace(OURS, id=7302, enforcement="disabled")
BY_DEFAULT = replace(OURS, by_default_branch=True)
DELETION, CREATION = ActiveRule("deletion", OURS), ActiveRule("creation", OURS)


def required(context: str = OWN, app_id: int | None = APP, ruleset: Ruleset | None = OURS) -> ActiveRule:
    return ActiveRule("required_status_checks", ruleset, (RequiredCheck(context, app_id),))


def facts(*rules: ActiveRule, **others: Any) -> BranchFacts:
    permissions = {"administration": "write"}
    return BranchFacts(OWN, APP, rules, permissions=permissions, pattern_check_name=PATTERN, **others)


@pytest.mark.parametrize(
    ("known", "decides"),
    [
        pytest.param(facts(), None, id="no check is required"),
        pytest.param(facts(required("ci")), None, id="only a check of others"),
        pytest.param(facts(required(ruleset=DISABLED)), None, id="only by a disabled rule"),
        pytest.param(facts(required()), OWN, id="its own"),
        pytest.param(facts(required(PATTERN), required()), OWN, id="its own before that of the pattern"),
        pytest.param(facts(required(PATTERN)), PATTERN, id="that of the pattern alone"),
        pytest.param(facts(required(app_id=None), required(PATTERN)), PATTERN, id="the one that only we can write"),
        pytest.param(facts(required(app_id=OTHER), required(PATTERN, None)), PATTERN, id="not that of another App"),
    ],
)
def test_deciding_check_is_one_that_only_we_can_write(known: BranchFacts, decides: str | None) -> None:
    assert evaluate(known).decisive_check == decides


@pytest.mark.parametrize(
    ("known", "ways"),
    [
        pytest.param(facts(required(), DELETION), (), id="nothing is open"),
        pytest.param(facts(required()), ("deletion",), id="it can be deleted"),
        pytest.param(facts(required(), replace(DELETION, ruleset=DISABLED)), ("deletion",), id="by a disabled rule"),
        pytest.param(facts(required(), CREATION), ("deletion",), id="that it cannot be created is no help"),
        pytest.param(facts(required(), CREATION, missing=True), (), id="it is missing and cannot be created"),
        pytest.param(facts(required(), DELETION, missing=True), ("creation",), id="it is missing and can be created"),
        pytest.param(facts(required(app_id=None), DELETION), ("forgery",), id="anybody may write the check"),
        pytest.param(
            facts(required(app_id=None), required(PATTERN), DELETION), (), id="nobody may write the one that decides"
        ),
        pytest.param(
            facts(required(ruleset=BY_DEFAULT), DELETION), ("default_branch",), id="while it is the default branch"
        ),
    ],
)
def test_open_ways_follow_from_the_rules_in_force(known: BranchFacts, ways: tuple[str, ...]) -> None:
    assert evaluate(known).open_ways == ways
