"""The contract's examples of rulesets and snippets are what the service itself makes."""

from typing import Any

from rules.rulesets.plans import difference
from rules.rulesets.rulesets import desired_ruleset
from rules.rulesets.snippets import PlacedRuleset, snippets_of
from schemas.contract import load_contract
from tools.sandbox.tenants import APP_ID

EXAMPLES = load_contract().document["components"]["examples"]
CHECK = "change-freeze/main"


def example(name: str) -> Any:
    return EXAMPLES[name]["value"]


def test_example_snippets_match_the_generated_snippets() -> None:
    ruleset = desired_ruleset(CHECK, APP_ID)
    place = PlacedRuleset("repository", "acme", "web", ruleset, ruleset["name"], "https://api.github.com")
    made = {
        (one.tool, one.purpose): {
            "tool": one.tool,
            "level": one.level,
            "purpose": one.purpose,
            "language": one.language,
            "title": one.title,
            "content": one.content,
            "checkName": CHECK,
        }
        for one in snippets_of([place])
    }
    shown = example("EnforcementSnippets")["snippets"]
    assert shown
    assert shown == [made[one["tool"], one["purpose"]] for one in shown]


def test_example_plan_shows_the_desired_ruleset_and_its_diff() -> None:
    [change] = example("EnforcementSetupPlanned")["changes"]
    assert change["after"] == desired_ruleset(CHECK, APP_ID, [501, 502])
    assert change["diff"] == difference(None, change["after"])


def test_example_of_an_applied_setup_has_no_difference() -> None:
    [change] = example("EnforcementSetupApplied")["changes"]
    assert change["before"] == change["after"] == desired_ruleset(CHECK, APP_ID)
    assert change["diff"] == ""
