"""Setting enforcement up: what is planned, what a job writes, and what is left alone."""

import pytest

from rules.errors import ServiceError
from services.enforcement.applying import apply_due
from tests.jobs.conftest import Town
from tests.jobs.setup.requests import (
    MAIN,
    abandoned_with_a_rule_of_others,
    actions,
    add,
    ask,
    audit,
    names,
    permit,
    state,
    work,
)


class TestPlan:
    def test_organization_ruleset_covers_repositories_that_share_a_pattern(self, town: Town) -> None:
        add(town, "web", "api")
        view = ask(town, "plan")
        assert (view["state"], view["level"]) == ("planned", "organization")
        [change] = view["changes"]
        assert (change["action"], change["repository"], change["check_name"]) == ("create", None, MAIN)
        numbers = [town.host.organization("acme").repository(name).record.id for name in ("web", "api")]
        assert change["after"]["conditions"]["repository_id"] == {"repository_ids": sorted(numbers)}
        assert change["diff"].startswith("--- before\n+++ after\n")
        assert sorted(branch["repository"] for branch in change["branches"]) == ["acme/api", "acme/web"]
        assert names(town.host) == {}
        assert audit(town) == []

    def test_single_repository_has_its_own_ruleset(self, town: Town) -> None:
        add(town, "web")
        assert actions(ask(town, "plan")) == [("create", "repository", "acme/web")]

    def test_partial_scope_has_rulesets_of_its_repositories(self, town: Town) -> None:
        add(town, "web", "api")
        view = ask(town, "plan", {"type": "repositories", "repositories": ["acme/web", "acme/api"]})
        assert sorted(actions(view)) == [("create", "repository", "acme/api"), ("create", "repository", "acme/web")]

    def test_each_repository_has_its_ruleset_without_organization_permission(self, town: Town) -> None:
        add(town, "web", "api")
        permit(town, administration="write")
        assert {level for _, level, _ in actions(ask(town, "plan"))} == {"repository"}

    def test_rule_of_others_that_requires_the_check_is_sufficient(self, town: Town) -> None:
        add(town, "web")
        town.host.organization("acme").repository("web").requires(MAIN, "main")
        assert actions(ask(town, "plan")) == [("none", "repository", "acme/web")]

    def test_unpinned_rule_is_not_sufficient(self, town: Town) -> None:
        add(town, "web")
        check = {"context": MAIN}
        parameters = {"required_status_checks": [check], "strict_required_status_checks_policy": False}
        town.host.organization("acme").repository("web").ruleset(
            name="Theirs",
            enforcement="active",
            conditions={"ref_name": {"include": ["~ALL"], "exclude": []}},
            rules=[{"type": "required_status_checks", "parameters": parameters}],
        )
        assert actions(ask(town, "plan")) == [("create", "repository", "acme/web")]

    def test_pattern_is_covered_before_any_branch_matches(self, town: Town) -> None:
        add(town, "web", auto_watch=["release/*"])
        assert [change["check_name"] for change in ask(town, "plan")["changes"]] == [MAIN, "change-freeze/release/*"]

    def test_rule_for_existing_branches_does_not_cover_a_pattern(self, town: Town) -> None:
        add(town, "web", branches=("release/1",), auto_watch=["release/*"])
        town.host.organization("acme").repository("web").requires("change-freeze/release/*", "release/1")
        assert actions(ask(town, "plan")) == [("create", "repository", "acme/web")]

    def test_ruleset_of_others_with_the_same_name_is_kept(self, town: Town) -> None:
        add(town, "web")
        foreign = {"name": "Change freeze: main", "enforcement": "disabled", "rules": []}
        town.host.organization("acme").repository("web").ruleset(**foreign)
        [change] = ask(town, "plan")["changes"]
        assert (change["action"], change["after"]["name"]) == ("create", "Change freeze: main (2)")

    def test_scope_without_targets_is_rejected(self, town: Town) -> None:
        add(town, "web")
        with pytest.raises(ServiceError) as refused:
            ask(town, "plan", {"type": "glob", "patterns": ["other/*"]})
        assert refused.value.code == "no_targets_in_scope"


class TestApply:
    def test_setup_job_writes_records_and_audits_the_plan(self, town: Town) -> None:
        add(town, "web", "api", branches=("main", "next"))
        assert ask(town)["state"] == "applying"
        work(town)
        assert names(town.host) == {"acme": ["Change freeze: main", "Change freeze: next"]}
        assert state(town) == ("done", 2, None)
        assert audit(town) == ["enforcement.setup_requested", "ruleset.created", "ruleset.created"]
        assert town.sql("SELECT count(*) FROM written_rulesets")[0][0] == 2

    def test_check_is_required_after_heads_have_their_verdicts(self, town: Town) -> None:
        add(town, "web")
        ask(town)
        assert apply_due(town.jobs, town.github)
        assert names(town.host) == {}
        town.settle()
        assert town.conclusions() == {"acme/web#1": "success"}
        work(town)
        assert names(town.host) == {"web": ["Change freeze: main"]}

    def test_setup_waits_for_verdicts_for_a_limited_time(self, town: Town) -> None:
        add(town, "web")
        ask(town)
        town.sql(
            'UPDATE enforcement_setups SET progress = progress || \'{"headsAskedAt": "2026-01-01T00:00:00+00:00"}\''
        )
        assert apply_due(town.jobs, town.github)
        assert names(town.host) == {"web": ["Change freeze: main"]}

    def test_repeated_setup_changes_nothing(self, town: Town) -> None:
        add(town, "web", "api")
        ask(town)
        work(town)
        assert ask(town)["state"] == "applied"
        work(town)
        assert audit(town) == ["enforcement.setup_requested", "ruleset.created", "enforcement.setup_requested"]

    def test_loosened_ruleset_is_restored_and_additions_stay(self, town: Town) -> None:
        add(town, "web")
        ask(town)
        work(town)
        [ruleset] = town.host.world.rulesets.values()
        ruleset.enforcement, ruleset.name = "disabled", "Renamed"
        ruleset.bypass_actors = [{"actor_type": "OrganizationAdmin", "actor_id": None, "bypass_mode": "always"}]
        ruleset.rules.append({"type": "deletion"})
        [change] = ask(town)["changes"]
        assert (change["action"], change["before"]["enforcement"]) == ("update", "disabled")
        work(town)
        assert (ruleset.enforcement, ruleset.name, ruleset.bypass_actors) == ("active", "Renamed", [])
        assert {"type": "deletion"} in ruleset.rules
        assert audit(town)[-1] == "ruleset.updated"

    def test_new_repository_joins_the_organization_ruleset(self, town: Town) -> None:
        add(town, "web", "api")
        ask(town)
        work(town)
        add(town, "docs")
        assert actions(ask(town)) == [("update", "organization", None)]
        work(town)
        [ruleset] = town.host.world.rulesets.values()
        assert len(ruleset.conditions["repository_id"]["repository_ids"]) == 3

    def test_unneeded_ruleset_is_removed_only_with_organisation_scope(self, town: Town) -> None:
        add(town, "web", branches=("main", "next"))
        ask(town)
        work(town)
        town.sql("UPDATE watched_branches SET unwatched_at = clock_timestamp() WHERE name = 'next'")
        part = ask(town, "plan", {"type": "repositories", "repositories": ["acme/web"]})
        assert [change["action"] for change in part["changes"]] == ["none"]
        assert sorted(change["action"] for change in ask(town)["changes"]) == ["delete", "none"]
        work(town)
        assert names(town.host) == {"web": ["Change freeze: main"]}
        assert audit(town)[-1] == "ruleset.deleted"

    def test_additions_stay_when_our_check_is_removed(self, town: Town) -> None:
        ruleset = abandoned_with_a_rule_of_others(town)
        assert sorted(change["action"] for change in ask(town)["changes"]) == ["none", "update"]
        work(town)
        assert ruleset.rules == [{"type": "deletion"}]
        assert len(names(town.host)["web"]) == 2
        assert town.sql("SELECT check_name FROM written_rulesets") == [(MAIN,)]
        assert audit(town)[-1] == "ruleset.updated"
        assert [change["action"] for change in ask(town)["changes"]] == ["none"]

    def test_repositories_keep_their_own_rulesets(self, town: Town) -> None:
        add(town, "web", "api")
        ask(town, scope={"type": "repositories", "repositories": ["acme/web", "acme/api"]})
        work(town)
        assert {action for action, _, _ in actions(ask(town))} == {"none"}
        work(town)
        assert names(town.host) == {"web": ["Change freeze: main"], "api": ["Change freeze: main"]}

    def test_organization_ruleset_replaces_repository_rulesets(self, town: Town) -> None:
        add(town, "web", "api")
        ask(town, scope={"type": "repositories", "repositories": ["acme/web"]})
        work(town)
        assert [(action, level) for action, level, _ in actions(ask(town))] == [
            ("create", "organization"),
            ("delete", "repository"),
        ]
        work(town)
        assert names(town.host) == {"acme": ["Change freeze: main"]}
