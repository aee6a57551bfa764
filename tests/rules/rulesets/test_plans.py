"""Which rulesets are needed where, and what has to be changed for that: tables without GitHub."""

from typing import Any, ClassVar

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rules.freezes.check_names import check_name, pattern_check_name, watched_automatically
from rules.freezes.globs import compile_globs
from rules.rulesets.needs import (
    KnownBranch,
    KnownRepository,
    Need,
    WantedRuleset,
    needs_of,
    sample_branch,
    wanted_rulesets,
)
from rules.rulesets.plans import (
    Change,
    Existing,
    Found,
    Place,
    difference,
    normalized,
    plan_removal,
    plan_ruleset,
    restored,
)

APP = 4207
MAIN = "change-freeze/main"
RELEASE = "change-freeze/release/*"
HERE = Place("repository", "acme", "rep_1", "acme/web")


def repository(number: int = 1, auto_watch: tuple[str, ...] = (), **branches: str) -> KnownRepository:
    """Build a repository; a branch's value is its own check or its pattern's, with `-` in front outside the scope."""
    known = tuple(
        KnownBranch(
            f"wbr_{name}",
            name.replace("__", "/"),
            check_name(name.replace("__", "/")),
            not check.startswith("-"),
            check.removeprefix("-") if "*" in check else None,
        )
        for name, check in branches.items()
    )
    return KnownRepository(
        f"rep_{number}", number, "acme", f"r{number}", archived=False, auto_watch=auto_watch, branches=known
    )


def needs(known: KnownRepository, *, with_patterns: bool = True) -> dict[str, tuple[str, ...]]:
    return {need.check_name: need.excluded for need in needs_of(known, with_patterns=with_patterns)}


def wanted(check: str = MAIN, **branches: str) -> WantedRuleset:
    known = repository(1, (), **(branches or {"main": MAIN}))
    [found] = [
        each for each in wanted_rulesets(needs_of(known, with_patterns=False), APP, None) if each.check_name == check
    ]
    return found


class TestNeeds:
    def test_each_check_name_of_the_scope_is_needed_once(self) -> None:
        known = repository(main=MAIN, release__1=RELEASE, release__2=RELEASE, old="-change-freeze/old")
        own = {"change-freeze/release/1", "change-freeze/release/2"}
        assert set(needs(known)) == {MAIN, RELEASE} | own
        assert [need.branches for need in needs_of(known, with_patterns=False) if need.check_name == RELEASE] == [
            tuple(branch for branch in known.branches if branch.pattern_check_name == RELEASE)
        ]

    def test_pattern_is_needed_before_any_branch_matches(self) -> None:
        known = repository(auto_watch=("release/*", "!release/old"), main=MAIN)
        assert set(needs(known)) == {MAIN, RELEASE}
        assert set(needs(known, with_patterns=False)) == {MAIN}

    def test_branches_without_the_check_are_excluded(self) -> None:
        known = repository(
            auto_watch=("release/*", "!release/old*"), release__1=RELEASE, release__2="change-freeze/release/2"
        )
        assert needs(known)[RELEASE] == ("release/2", "release/old*")

    def test_branches_of_an_earlier_pattern_are_excluded(self) -> None:
        known = repository(auto_watch=("release/*", "**/stable", "next"))
        assert needs(known)["change-freeze/**/stable"] == ("release/*",)
        assert needs(known)["change-freeze/next"] == ()

    def test_pattern_that_covers_branches_with_the_check_is_not_excluded(self) -> None:
        known = repository(auto_watch=("release/*", "!release/old*"), release__old1=RELEASE)
        assert needs(known)[RELEASE] == ()

    @given(
        st.lists(
            st.sampled_from(["a/*", "b/*", "**/x", "*/x", "a/**", "main", "!a/x", "!b/*"]), unique=True, max_size=5
        ),
        st.sampled_from(["main", "a/x", "a/y", "b/x", "c/d/x", "b/y/z"]),
    )
    def test_no_rule_covers_a_new_branch_without_its_check(self, globs: list[str], name: str) -> None:
        """A branch that appears and is watched by a pattern is held only by rules that require its two checks."""
        assume(any(not glob.startswith("!") for glob in globs))
        own, watched = {check_name(name), pattern_check_name(name, globs)}, watched_automatically(name, globs)
        for check, excluded in needs(repository(auto_watch=tuple(globs))).items():
            held = compile_globs([check.removeprefix("change-freeze/")], "branch", "").matches(name)
            held = held and not any(compile_globs([each], "branch", "").matches(name) for each in excluded)
            assert not held or (watched and check in own)

    def test_sample_branch_is_not_excluded_by_the_rule(self) -> None:
        known = repository()
        assert sample_branch(Need(known, RELEASE, ())) == "release/0"
        assert sample_branch(Need(known, RELEASE, ("release/0*",))) is None
        assert sample_branch(Need(known, MAIN, ())) is None


class TestLevels:
    def all_needs(self, *repositories: KnownRepository) -> list[Need]:
        return [need for known in repositories for need in needs_of(known, with_patterns=True)]

    def test_repositories_with_one_pattern_share_a_ruleset(self) -> None:
        found = wanted_rulesets(self.all_needs(repository(1, main=MAIN), repository(2, main=MAIN)), APP, set())
        assert [(each.level, each.ruleset["conditions"]["repository_id"]) for each in found] == [
            ("organization", {"repository_ids": [1, 2]})
        ]

    def test_single_repository_has_its_own_ruleset_unless_shared_exists(self) -> None:
        alone = self.all_needs(repository(1, main=MAIN))
        assert [each.level for each in wanted_rulesets(alone, APP, set())] == ["repository"]
        assert [each.level for each in wanted_rulesets(alone, APP, {MAIN})] == ["organization"]

    def test_repository_with_other_exclusions_has_its_own_ruleset(self) -> None:
        other = repository(3, auto_watch=("release/*",), release__1="change-freeze/release/1")
        same = [repository(number, auto_watch=("release/*",)) for number in (1, 2)]
        found = [
            each for each in wanted_rulesets(self.all_needs(*same, other), APP, set()) if each.check_name == RELEASE
        ]
        assert [(each.level, len(each.needs)) for each in found] == [("organization", 2), ("repository", 1)]

    def test_branches_of_a_pattern_have_rulesets_of_their_repositories(self) -> None:
        alike = [repository(number, ("release/*",), release__1=RELEASE) for number in (1, 2)]
        assert [(each.level, each.check_name) for each in wanted_rulesets(self.all_needs(*alike), APP, set())] == [
            ("organization", RELEASE),
            ("repository", "change-freeze/release/1"),
            ("repository", "change-freeze/release/1"),
        ]

    def test_pattern_is_planned_before_its_branches(self) -> None:
        known = repository(1, ("release/**",), main=MAIN, release__1="change-freeze/release/**")
        assert [each.check_name for each in wanted_rulesets(self.all_needs(known), APP, None)] == [
            "change-freeze/release/**",
            MAIN,
            "change-freeze/release/1",
        ]

    def test_archived_repository_gets_no_ruleset(self) -> None:
        archived = KnownRepository("rep_1", 1, "acme", "web", True, (), (KnownBranch("wbr_1", "main", MAIN, True),))
        assert wanted_rulesets(needs_of(archived, with_patterns=True), APP, None) == []


class TestRuleAgainstDeletion:
    """A setup that forbids deletion, and those after it."""

    RULE: ClassVar = {"type": "deletion"}

    def wanted(self) -> WantedRuleset:
        [found] = wanted_rulesets(needs_of(repository(main=MAIN), with_patterns=False), APP, None, forbid_deletion=True)
        return found

    def test_only_rulesets_of_single_branches_forbid_deletion(self) -> None:
        known = repository(auto_watch=("release/*",), release__1=RELEASE, main=MAIN)
        found = wanted_rulesets(needs_of(known, with_patterns=True), APP, None, forbid_deletion=True)
        assert {each.check_name: self.RULE in each.ruleset["rules"] for each in found} == {
            RELEASE: False,
            "change-freeze/release/1": True,
            MAIN: True,
        }

    def test_created_ruleset_forbids_deletion(self) -> None:
        change = plan_ruleset(self.wanted(), HERE, Found())
        assert (change.action, change.forbids_deletion, '"type": "deletion"' in change.diff) == ("create", True, True)

    def test_rule_is_added_to_a_ruleset_of_ours(self) -> None:
        change = plan_ruleset(self.wanted(), HERE, Found(own=Existing(7, wanted().ruleset)))
        assert (change.action, change.forbids_deletion) == ("update", True)
        assert change.after == self.wanted().ruleset

    @pytest.mark.parametrize("ours", [True, False])
    def test_later_setup_keeps_the_rule_and_whose_it_is(self, *, ours: bool) -> None:
        own = Existing(7, self.wanted().ruleset, forbids_deletion=ours)
        for each in (wanted(), self.wanted()):
            change = plan_ruleset(each, HERE, Found(own=own))
            assert (change.action, change.forbids_deletion) == ("none", ours)

    def test_created_ruleset_is_recognized_with_its_rule(self) -> None:
        taken = {"Change freeze: main": Existing(7, {"id": 7, **self.wanted().ruleset})}
        recognized = plan_ruleset(self.wanted(), HERE, Found(taken=taken))
        assert (recognized.recognized, recognized.forbids_deletion) == (True, True)


class TestChanges:
    def plan(self, found: Found) -> Change:
        return plan_ruleset(wanted(), HERE, found)

    def at_github(self, **changes: Any) -> dict[str, Any]:
        return {"id": 7, "node_id": "RRS_7", "updated_at": "2026-11-21T09:00:00Z", **wanted().ruleset, **changes}

    def test_missing_ruleset_is_created(self) -> None:
        change = self.plan(Found())
        assert (change.action, change.before, change.after) == ("create", None, wanted().ruleset)

    def test_correct_ruleset_stays(self) -> None:
        change = self.plan(Found(own=Existing(7, self.at_github())))
        assert (change.action, change.ruleset_id, change.diff) == ("none", 7, "")

    def test_check_required_by_an_active_rule_is_not_required_twice(self) -> None:
        assert self.plan(Found(covered=True)).action == "none"

    @pytest.mark.parametrize("name", ["enforcement", "bypass_actors", "rules", "conditions", "pin", "target"])
    def test_every_loosening_is_restored(self, name: str) -> None:
        other_pin = {"context": MAIN, "integration_id": 1}
        parameters = {**wanted().ruleset["rules"][0]["parameters"], "required_status_checks": [other_pin]}
        loosened: dict[str, dict[str, Any]] = {
            "enforcement": {"enforcement": "evaluate"},
            "target": {"target": "tag"},
            "bypass_actors": {"bypass_actors": [{"actor_type": "Team", "actor_id": 1, "bypass_mode": "always"}]},
            "rules": {"rules": []},
            "conditions": {"conditions": {"ref_name": {"include": ["refs/heads/other"], "exclude": []}}},
            "pin": {"rules": [{"type": "required_status_checks", "parameters": parameters}]},
        }
        change = self.plan(Found(own=Existing(7, self.at_github(**loosened[name]))))
        assert (change.action, change.after) == ("update", wanted().ruleset)
        assert change.diff

    def test_additions_that_do_not_loosen_stay(self) -> None:
        own = wanted().ruleset
        theirs = {"context": "build"}
        parameters = {
            **own["rules"][0]["parameters"],
            "strict_required_status_checks_policy": True,
            "required_status_checks": [theirs, *own["rules"][0]["parameters"]["required_status_checks"]],
        }
        rules = [{"type": "deletion"}, {"type": "required_status_checks", "parameters": parameters}]
        added = self.at_github(name="Ours, renamed", rules=rules)
        assert self.plan(Found(own=Existing(7, added))).action == "none"
        disabled = self.plan(Found(own=Existing(7, {**added, "enforcement": "disabled"})))
        assert disabled.after == normalized(added)

    def test_hidden_bypass_actors_are_no_difference(self) -> None:
        hidden = self.at_github()
        del hidden["bypass_actors"]
        assert self.plan(Found(own=Existing(7, hidden))).action == "none"

    def test_order_of_unordered_fields_is_no_difference(self) -> None:
        two = wanted(RELEASE, release__1=RELEASE)
        shuffled = {**two.ruleset, "conditions": {"ref_name": {"exclude": [], "include": ["refs/heads/release/*"]}}}
        assert restored(shuffled, two) == shuffled

    def test_name_in_use_by_others_gets_a_number(self) -> None:
        taken = {"Change freeze: main": None, "Change freeze: main (2)": None}
        assert self.plan(Found(taken=taken)).name == "Change freeze: main (3)"

    def test_only_the_intended_ruleset_is_recognized(self) -> None:
        left = Existing(7, self.at_github())
        recognized = self.plan(Found(taken={"Change freeze: main": left}))
        assert (recognized.action, recognized.recognized, recognized.ruleset_id) == ("none", True, 7)
        changed = Existing(7, self.at_github(rules=[*wanted().ruleset["rules"], {"type": "deletion"}]))
        assert self.plan(Found(taken={"Change freeze: main": changed})).name == "Change freeze: main (2)"

    def test_removal_shows_the_removed_ruleset(self) -> None:
        change = plan_removal(Existing(7, self.at_github()), HERE, MAIN)
        assert (change.action, change.after) == ("delete", None)
        assert all(line.startswith(("---", "+++", "@@", "-")) for line in change.diff.splitlines())

    @pytest.mark.parametrize(
        ("added", "left"),
        [
            pytest.param({"rules": [{"type": "deletion"}]}, [{"type": "deletion"}], id="a rule"),
            pytest.param(
                {"bypass_actors": [{"actor_type": "OrganizationAdmin", "actor_id": None, "bypass_mode": "always"}]},
                [],
                id="an actor who may bypass it",
            ),
            pytest.param({"conditions": {"ref_name": {"include": ["~ALL"], "exclude": []}}}, [], id="other branches"),
            pytest.param(
                {"conditions": {"repository_property": {"include": [], "exclude": []}}}, [], id="another condition"
            ),
        ],
    )
    def test_removal_keeps_additions_and_ends_ownership(self, added: dict[str, Any], left: list[Any]) -> None:
        rules = [*wanted().ruleset["rules"], *added.get("rules", [])]
        existing = self.at_github(**{**added, "rules": rules})
        change = plan_removal(Existing(7, existing), HERE, MAIN)
        assert (change.action, change.unmanaged, change.removes) == ("update", True, True)
        assert change.after == {**normalized(existing), "rules": left}

    def test_removal_takes_our_rule_against_deletion_along(self) -> None:
        rules = [*wanted().ruleset["rules"], {"type": "deletion"}]
        change = plan_removal(Existing(7, self.at_github(rules=rules), forbids_deletion=True), HERE, MAIN)
        assert (change.action, change.after) == ("delete", None)

    def test_removal_keeps_checks_of_others(self) -> None:
        [rule] = wanted().ruleset["rules"]
        theirs = {"context": "build"}
        checks = [theirs, *rule["parameters"]["required_status_checks"]]
        both = {**rule, "parameters": {**rule["parameters"], "required_status_checks": checks}}
        change = plan_removal(Existing(7, self.at_github(rules=[both])), HERE, MAIN)
        assert change.after is not None
        [left] = change.after["rules"]
        assert left["parameters"] == {**rule["parameters"], "required_status_checks": [theirs]}

    def test_difference_of_rulesets_is_readable(self) -> None:
        before = wanted().ruleset
        lines = difference(before, {**before, "enforcement": "disabled"}).splitlines()
        assert [line for line in lines if line[0] in "+-"] == [
            "--- before",
            "+++ after",
            '-  "enforcement": "active",',
            '+  "enforcement": "disabled",',
        ]
