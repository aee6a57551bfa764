"""Setting enforcement up: what is planned, what a job writes, and what is left alone."""

from services.enforcement.setup_runs import apply_due
from tests.harness.github_harness import Harness
from tests.jobs.setup.requests import (
    MAIN,
    abandoned_with_a_rule_of_others,
    actions,
    add,
    ask,
    audit,
    done,
    names,
    permit,
    state,
    work,
)


class TestPlan:
    def test_organization_ruleset_covers_repositories_that_share_a_pattern(self, harness: Harness) -> None:
        add(harness, "web", "api")
        view = ask(harness, "plan")
        assert (view["state"], view["level"]) == ("planned", "organization")
        [change] = view["changes"]
        assert (change["action"], change["repository"], change["check_name"]) == ("create", None, MAIN)
        numbers = [harness.fake_github.organization("acme").repository(name).record.id for name in ("web", "api")]
        assert change["after"]["conditions"]["repository_id"] == {"repository_ids": sorted(numbers)}
        assert change["diff"].startswith("--- before\n+++ after\n")
        assert sorted(branch["repository"] for branch in change["branches"]) == ["acme/api", "acme/web"]
        assert names(harness.fake_github) == {}
        assert audit(harness) == []

    def test_partial_scope_has_rulesets_of_its_repositories(self, harness: Harness) -> None:
        add(harness, "web", "api")
        view = ask(harness, "plan", {"type": "repositories", "repositories": ["acme/web", "acme/api"]})
        assert sorted(actions(view)) == [("create", "repository", "acme/api"), ("create", "repository", "acme/web")]

    def test_each_repository_has_its_ruleset_without_organization_permission(self, harness: Harness) -> None:
        add(harness, "web", "api")
        permit(harness, administration="write")
        assert {level for _, level, _ in actions(ask(harness, "plan"))} == {"repository"}

    def test_unpinned_rule_is_not_sufficient(self, harness: Harness) -> None:
        add(harness, "web")
        check = {"context": MAIN}
        parameters = {"required_status_checks": [check], "strict_required_status_checks_policy": False}
        harness.fake_github.organization("acme").repository("web").ruleset(
            name="Theirs",
            enforcement="active",
            conditions={"ref_name": {"include": ["~ALL"], "exclude": []}},
            rules=[{"type": "required_status_checks", "parameters": parameters}],
        )
        assert actions(ask(harness, "plan")) == [("create", "repository", "acme/web")]

    def test_rule_for_existing_branches_does_not_cover_a_pattern(self, harness: Harness) -> None:
        add(harness, "web", branches=("release/1",), auto_watch=["release/*"])
        harness.fake_github.organization("acme").repository("web").requires("change-freeze/release/*", "release/1")
        changes = ask(harness, "plan")["changes"]
        assert [(change["action"], change["check_name"]) for change in changes] == [
            ("create", "change-freeze/release/*"),
            ("create", "change-freeze/release/1"),
        ]


class TestApply:
    def test_setup_job_writes_records_and_audits_the_plan(self, harness: Harness) -> None:
        add(harness, "web", "api", branches=("main", "next"))
        assert ask(harness)["state"] == "applying"
        work(harness)
        assert names(harness.fake_github) == {"acme": ["Change freeze: main", "Change freeze: next"]}
        assert state(harness) == ("done", 2, None)
        assert audit(harness) == ["enforcement.setup_requested", "ruleset.created", "ruleset.created"]
        assert harness.sql("SELECT count(*) FROM written_rulesets")[0][0] == 2

    def test_check_is_required_after_heads_have_their_verdicts(self, harness: Harness) -> None:
        add(harness, "web")
        ask(harness)
        assert apply_due(harness.jobs, harness.github)
        assert names(harness.fake_github) == {}
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "success"}
        work(harness)
        assert names(harness.fake_github) == {"web": ["Change freeze: main"]}

    def test_setup_waits_for_verdicts_for_a_limited_time(self, harness: Harness) -> None:
        add(harness, "web")
        ask(harness)
        harness.sql(
            'UPDATE enforcement_setups SET progress = progress || \'{"headsAskedAt": "2026-01-01T00:00:00+00:00"}\''
        )
        assert apply_due(harness.jobs, harness.github)
        assert names(harness.fake_github) == {"web": ["Change freeze: main"]}

    def test_repeated_setup_changes_nothing(self, harness: Harness) -> None:
        done(harness, "web", "api")
        assert ask(harness)["state"] == "applied"
        work(harness)
        assert audit(harness) == ["enforcement.setup_requested", "ruleset.created", "enforcement.setup_requested"]

    def test_loosened_ruleset_is_restored_and_additions_stay(self, harness: Harness) -> None:
        done(harness, "web")
        [ruleset] = harness.fake_github.world.rulesets.values()
        ruleset.enforcement, ruleset.name = "disabled", "Renamed"
        ruleset.bypass_actors = [{"actor_type": "OrganizationAdmin", "actor_id": None, "bypass_mode": "always"}]
        ruleset.rules.append({"type": "deletion"})
        [change] = ask(harness)["changes"]
        assert (change["action"], change["before"]["enforcement"]) == ("update", "disabled")
        work(harness)
        assert (ruleset.enforcement, ruleset.name, ruleset.bypass_actors) == ("active", "Renamed", [])
        assert {"type": "deletion"} in ruleset.rules
        assert audit(harness)[-1] == "ruleset.updated"

    def test_new_repository_joins_the_organization_ruleset(self, harness: Harness) -> None:
        done(harness, "web", "api")
        add(harness, "docs")
        assert actions(ask(harness)) == [("update", "organization", None)]
        work(harness)
        [ruleset] = harness.fake_github.world.rulesets.values()
        assert len(ruleset.conditions["repository_id"]["repository_ids"]) == 3

    def test_unneeded_ruleset_is_removed_only_with_organization_scope(self, harness: Harness) -> None:
        done(harness, "web", branches=("main", "next"))
        harness.sql("UPDATE watched_branches SET unwatched_at = clock_timestamp() WHERE name = 'next'")
        part = ask(harness, "plan", {"type": "repositories", "repositories": ["acme/web"]})
        assert [change["action"] for change in part["changes"]] == ["none"]
        assert sorted(change["action"] for change in ask(harness)["changes"]) == ["delete", "none"]
        work(harness)
        assert names(harness.fake_github) == {"web": ["Change freeze: main"]}
        assert audit(harness)[-1] == "ruleset.deleted"

    def test_additions_stay_when_our_check_is_removed(self, harness: Harness) -> None:
        ruleset = abandoned_with_a_rule_of_others(harness)
        assert sorted(change["action"] for change in ask(harness)["changes"]) == ["none", "update"]
        work(harness)
        assert ruleset.rules == [{"type": "deletion"}]
        assert len(names(harness.fake_github)["web"]) == 2
        assert harness.sql("SELECT check_name FROM written_rulesets") == [(MAIN,)]
        assert audit(harness)[-1] == "ruleset.updated"
        assert [change["action"] for change in ask(harness)["changes"]] == ["none"]

    def test_repositories_keep_their_own_rulesets(self, harness: Harness) -> None:
        add(harness, "web", "api")
        ask(harness, scope={"type": "repositories", "repositories": ["acme/web", "acme/api"]})
        work(harness)
        assert {action for action, _, _ in actions(ask(harness))} == {"none"}
        work(harness)
        assert names(harness.fake_github) == {"web": ["Change freeze: main"], "api": ["Change freeze: main"]}

    def test_organization_ruleset_replaces_repository_rulesets(self, harness: Harness) -> None:
        add(harness, "web", "api")
        ask(harness, scope={"type": "repositories", "repositories": ["acme/web"]})
        work(harness)
        assert [(action, level) for action, level, _ in actions(ask(harness))] == [
            ("create", "organization"),
            ("delete", "repository"),
        ]
        work(harness)
        assert names(harness.fake_github) == {"acme": ["Change freeze: main"]}
