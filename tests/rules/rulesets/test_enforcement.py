"""Enforcement: green needs proof, red is proof of the contrary, and doubt never looks well."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rules.rulesets.enforcement import (
    ADMINISTRATORS,
    ActiveRule,
    BranchFacts,
    BypassActor,
    ClassicProtection,
    RequiredCheck,
    Ruleset,
    covers,
    evaluate,
)
from rules.rulesets.findings import light_of, worst

CHECK = "change-freeze/main"
APP, OTHER = 42, 99
ALL = {"administration": "write", "organization_administration": "write", "merge_queues": "read"}
TEAM = BypassActor("Team", 12, "release-managers")
OURS = Ruleset(7301, "Change freeze: main", "active", "repository", ())
ABOVE = Ruleset(7302, "Everywhere", "active", "organization", ())
DISABLED = Ruleset(7303, "Change freeze: main", "disabled", "repository")
QUEUE = ActiveRule("merge_queue", OURS, grouping_strategy="HEADGREEN")


def required(ruleset: Ruleset | None = OURS, app_id: int | None = APP, context: str = CHECK) -> ActiveRule:
    return ActiveRule("required_status_checks", ruleset, (RequiredCheck(context, app_id),))


def facts(*rules: ActiveRule, **others: Any) -> BranchFacts:
    return BranchFacts(CHECK, APP, rules, **{"permissions": ALL, "closable": True, **others})


def classic(app_id: int | None = APP, **others: Any) -> ClassicProtection:
    return ClassicProtection((RequiredCheck(CHECK, app_id),), **others)


@pytest.mark.parametrize(
    ("known", "light", "codes"),
    [
        pytest.param(facts(required()), "green", [], id="required of us, without bypass actors"),
        pytest.param(facts(required(ABOVE)), "green", [], id="the same by the organisation's ruleset"),
        pytest.param(facts(), "red", ["check_not_required"], id="no rule at all"),
        pytest.param(facts(required(context="ci")), "red", ["check_not_required"], id="another check is required"),
        pytest.param(
            facts(required(), required(context="change-freeze/release/*")),
            "red",
            ["other_check_required"],
            id="a check of ours that is never written here is required besides",
        ),
        pytest.param(
            facts(required(), required(context="change-freeze/release/*", app_id=OTHER)),
            "green",
            [],
            id="what another App is to write under such a name is its own business",
        ),
        pytest.param(
            facts(required(context="change-freeze/release/*"), watched=False),
            "amber",
            ["other_check_required"],
            id="such a check is required of an unwatched branch",
        ),
        pytest.param(facts(inactive=(DISABLED,)), "red", ["ruleset_disabled"], id="the rule was disabled"),
        pytest.param(
            facts(inactive=(replace(DISABLED, enforcement="evaluate"),)),
            "red",
            ["ruleset_disabled"],
            id="the rule only evaluates",
        ),
        pytest.param(facts(required(), inactive=(DISABLED,)), "green", [], id="an active rule beside a disabled one"),
        pytest.param(facts(required(app_id=None)), "amber", ["not_pinned"], id="anybody's success counts"),
        pytest.param(facts(required(app_id=OTHER)), "red", ["pinned_to_other_app"], id="another App's success counts"),
        pytest.param(
            facts(required(), required(app_id=OTHER)),
            "red",
            ["pinned_to_other_app"],
            id="one rule takes ours, another can never be satisfied by us",
        ),
        pytest.param(facts(required(app_id=None), required(ABOVE)), "green", [], id="the stricter of two rules counts"),
        pytest.param(
            facts(required(replace(OURS, bypass_actors=(TEAM,)))), "amber", ["bypass_actors"], id="a team can bypass"
        ),
        pytest.param(
            facts(required(replace(OURS, bypass_actors=(TEAM,))), required(ABOVE)),
            "green",
            [],
            id="what bypasses one rule does not bypass the other",
        ),
        pytest.param(
            facts(required(replace(OURS, bypass_actors=None))),
            "amber",
            ["cannot_see_bypass_actors"],
            id="who can bypass is not known",
        ),
        pytest.param(
            facts(required(), permissions={}),
            "amber",
            ["cannot_see_bypass_actors", "cannot_see_classic_protection"],
            id="an empty list is not believed of those who may not see it",
        ),
        pytest.param(
            facts(required(ABOVE), permissions={"administration": "write", "organization_administration": "read"}),
            "amber",
            ["cannot_see_bypass_actors"],
            id="nor of the organisation's ruleset with a permission on repositories",
        ),
        pytest.param(
            facts(required(replace(OURS, level="enterprise"))),
            "amber",
            ["cannot_see_bypass_actors"],
            id="nor of an enterprise's",
        ),
        pytest.param(facts(required(None)), "amber", ["cannot_see_bypass_actors"], id="the ruleset is hidden"),
        pytest.param(facts(required(), QUEUE, queue_seen=True), "green", [], id="a merge queue that we can see"),
        pytest.param(
            facts(required(), QUEUE, queue_seen=False),
            "amber",
            ["merge_queue_not_visible"],
            id="a merge queue that we cannot see",
        ),
        pytest.param(
            facts(required(), classic=classic(OTHER)),
            "red",
            ["classic_protection_conflict", "pinned_to_other_app"],
            id="classic protection takes the check from another App",
        ),
        pytest.param(
            facts(classic=classic()),
            "amber",
            ["classic_protection_conflict"],
            id="classic protection alone requires it",
        ),
        pytest.param(
            facts(classic=classic(binds_administrators=False)),
            "amber",
            ["bypass_actors", "classic_protection_conflict"],
            id="classic protection does not bind administrators",
        ),
        pytest.param(
            facts(required(), classic=classic()),
            "green",
            ["classic_protection_conflict"],
            id="classic protection requires it too",
        ),
        pytest.param(
            facts(required(), classic=ClassicProtection(locked=True)),
            "amber",
            ["classic_protection_conflict"],
            id="classic protection locks the branch",
        ),
        pytest.param(
            facts(required(), classic=ClassicProtection()), "green", [], id="classic protection of other kinds"
        ),
        pytest.param(
            facts(required(), classic_seen=False),
            "green",
            ["cannot_see_classic_protection"],
            id="classic protection that cannot be seen",
        ),
        pytest.param(
            facts(required(), classic=classic(OTHER), permissions={}),
            "red",
            ["classic_protection_conflict", "pinned_to_other_app", "cannot_see_bypass_actors"],
            id="classic protection that is shown is believed of anybody",
        ),
        pytest.param(facts(required(), missing=True), "green", ["branch_missing"], id="a branch that is yet to come"),
        pytest.param(
            facts(archived=True),
            "amber",
            ["check_not_required", "repository_archived"],
            id="nothing can merge into an archived repository",
        ),
        pytest.param(
            facts(required(), watched=False), "amber", ["orphaned_requirement"], id="required, though it is not watched"
        ),
        pytest.param(facts(watched=False), "amber", [], id="neither watched nor required"),
        pytest.param(replace(facts(), rules=None), "amber", ["cannot_see_rules"], id="the rules cannot be seen"),
    ],
)
def test_light_and_findings_follow_from_facts(known: BranchFacts, light: str, codes: list[str]) -> None:
    proved = evaluate(known)
    assert (proved.light, [finding.code for finding in proved.findings]) == (light, codes)


def test_best_ruleset_is_shown() -> None:
    proved = evaluate(facts(required(replace(OURS, bypass_actors=(TEAM,)), app_id=None), required(ABOVE)))
    assert (proved.ruleset, proved.pinned, proved.bypass_actors) == (ABOVE, True, ())
    assert evaluate(facts(inactive=(DISABLED,))).ruleset == DISABLED
    assert evaluate(facts(required(app_id=None))).pinned is False


def test_no_bypass_actors_differs_from_not_readable() -> None:
    assert evaluate(facts(required())).bypass_actors == ()
    assert evaluate(facts(required(), permissions={})).bypass_actors is None
    assert evaluate(facts(classic=classic(binds_administrators=False))).bypass_actors == (ADMINISTRATORS,)


def test_merge_queue_is_shown_with_its_strategy() -> None:
    assert evaluate(facts(required())).merge_queue is None
    seen = evaluate(facts(required(), QUEUE, queue_seen=True)).merge_queue
    assert seen == {"groupingStrategy": "HEADGREEN", "reported": True}
    by_classic_protection = evaluate(facts(queue_seen=True, queue_strategy="ALLGREEN")).merge_queue
    assert by_classic_protection == {"groupingStrategy": "ALLGREEN", "reported": True}


def test_red_branch_stays_red_when_rules_become_unreadable() -> None:
    before = evaluate(facts(inactive=(DISABLED,)))
    blind = evaluate(replace(facts(), rules=None), before.findings)
    assert (blind.light, blind.seen) == ("red", False)
    assert [finding.code for finding in blind.findings] == ["ruleset_disabled", "cannot_see_rules"]


def test_worst_light_decides_and_no_light_is_amber() -> None:
    assert worst(["green", "red", "amber"]) == "red"
    assert worst(["green", "green"]) == "green"
    assert worst([]) == "amber"
    assert light_of([]) == "green"


@pytest.mark.parametrize(
    ("include", "exclude", "branch", "expected"),
    [
        (["refs/heads/main"], [], "main", True),
        (["refs/heads/main"], [], "maintenance", False),
        (["refs/heads/release/*"], [], "release/9", True),
        (["refs/heads/*"], [], "release/9", False),
        (["refs/heads/**/*"], [], "release/9/hot", True),
        (["refs/heads/release/**/*"], [], "release/9", True),
        (["~DEFAULT_BRANCH"], [], "main", True),
        (["~DEFAULT_BRANCH"], [], "next", False),
        (["~ALL"], ["refs/heads/main"], "main", False),
        (["~ALL"], [], "next", True),
        (["refs/heads/" + "**/a/" * 40 + "b"], [], "a/" * 60 + "c", False),
    ],
)
def test_ruleset_condition_matches_branches(
    include: list[str], exclude: list[str], branch: str, expected: bool
) -> None:
    assert covers(include, exclude, branch, "main") is expected


actors = st.sampled_from([None, (), (TEAM,)])
rulesets = st.builds(
    Ruleset,
    st.integers(1, 3),
    st.just("A ruleset"),
    st.just("active"),
    st.sampled_from(["repository", "organization", "enterprise"]),
    actors,
)
checks = st.builds(RequiredCheck, st.sampled_from([CHECK, "ci"]), st.sampled_from([None, APP, OTHER]))
active_rules = st.one_of(
    st.builds(ActiveRule, st.just("required_status_checks"), st.none() | rulesets, st.tuples(checks)),
    st.just(QUEUE),
)
seen_facts = st.builds(
    BranchFacts,
    st.just(CHECK),
    st.just(APP),
    st.lists(active_rules, max_size=3).map(tuple),
    st.sampled_from([(), (DISABLED,)]),
    st.none() | st.builds(ClassicProtection, st.tuples(checks), st.booleans(), st.booleans()),
    st.booleans(),
    st.sampled_from([None, True, False]),
    st.none(),
    st.just(True),
    st.booleans(),
    st.booleans(),
    st.sampled_from([{}, ALL, {"administration": "write"}]),
)
RANK = ["green", "amber", "red"]


def without_actors(known: BranchFacts) -> BranchFacts:
    hidden = [
        replace(rule, ruleset=replace(rule.ruleset, bypass_actors=None)) if rule.ruleset else rule
        for rule in known.rules or ()
    ]
    return replace(known, rules=tuple(hidden))


def without_pins(known: BranchFacts) -> BranchFacts:
    loose = [
        replace(rule, checks=tuple(replace(check, app_id=None) for check in rule.checks if check.app_id == APP))
        for rule in known.rules or ()
        if all(check.app_id in {None, APP} for check in rule.checks)
    ]
    strict = [rule for rule in known.rules or () if any(check.app_id == OTHER for check in rule.checks)]
    return replace(known, rules=(*loose, *strict))


DOUBTS: dict[str, Callable[[BranchFacts], BranchFacts]] = {
    "the rules": lambda known: replace(known, rules=None),
    "who can bypass": without_actors,
    "the rulesets": lambda known: replace(
        known, rules=tuple(replace(rule, ruleset=None) for rule in known.rules or ())
    ),
    "our pins": without_pins,
    "inactive rulesets": lambda known: replace(known, inactive=()),
    "classic protection": lambda known: replace(known, classic=None, classic_seen=False),
    "the permissions": lambda known: replace(known, permissions={}),
    "the merge queue": lambda known: replace(known, queue_seen=False if known.queue_seen else known.queue_seen),
}


OTHER_APPS = ClassicProtection((RequiredCheck(CHECK, OTHER),))
REQUIRED_OF_US = ActiveRule("required_status_checks", None, (RequiredCheck(CHECK, APP),))


@pytest.mark.parametrize("doubt", DOUBTS)
@given(known=seen_facts)
@example(BranchFacts(CHECK, APP, (REQUIRED_OF_US,), classic=OTHER_APPS, classic_seen=False, queue_seen=True))
def test_missing_data_never_makes_the_light_greener(doubt: str, known: BranchFacts) -> None:
    proved = evaluate(known)
    doubted = evaluate(DOUBTS[doubt](known), proved.findings)
    assert RANK.index(doubted.light) >= RANK.index(proved.light)


@given(known=seen_facts)
def test_green_requires_pinned_visible_rules_without_bypass(known: BranchFacts) -> None:
    proved = evaluate(known)
    if proved.light == "green":
        assert proved.required
        assert proved.pinned
        assert proved.bypass_actors == ()


RELEASE, PATTERN = "change-freeze/release/1", "change-freeze/release/*"


def release(*rules: ActiveRule) -> BranchFacts:
    return BranchFacts(RELEASE, APP, rules, permissions=ALL, pattern_check_name=PATTERN, closable=True)


@pytest.mark.parametrize(
    ("known", "light", "codes", "own_rule"),
    [
        pytest.param(
            release(required(context=RELEASE), required(context=PATTERN)), "green", [], True, id="both are required"
        ),
        pytest.param(
            release(required(context=PATTERN)), "amber", ["own_check_not_required"], False, id="only the pattern's"
        ),
        pytest.param(
            release(required(context=RELEASE)), "amber", ["pattern_check_not_required"], True, id="only its own"
        ),
        pytest.param(release(), "red", ["check_not_required"], False, id="none"),
        pytest.param(
            release(required(context=RELEASE, app_id=None), required(context=PATTERN)),
            "amber",
            ["not_pinned"],
            False,
            id="its own from any source protects nothing by itself",
        ),
        pytest.param(
            release(required(context=RELEASE, app_id=OTHER), required(context=PATTERN)),
            "red",
            ["pinned_to_other_app"],
            False,
            id="its own from another App",
        ),
        pytest.param(
            release(required(context=RELEASE), required(context=PATTERN), required(context=CHECK)),
            "red",
            ["other_check_required"],
            True,
            id="that of another branch besides",
        ),
    ],
)
def test_branch_of_a_pattern_needs_two_requirements(
    known: BranchFacts, light: str, codes: list[str], *, own_rule: bool
) -> None:
    found = evaluate(known)
    assert (found.light, [finding.code for finding in found.findings], found.own_rule) == (light, codes, own_rule)
