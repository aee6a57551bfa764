"""Setting enforcement up: what is planned, what a job writes, and what is left alone, as facts."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

from integrations.github.sockets import STOPWATCH
from rules.errors import ServiceError
from services.enforcement.applying import apply_due
from services.enforcement.planning import set_up
from services.unit import Caller, Unit, Units
from tests import factories
from tests.jobs.conftest import ADA, Town
from tools.codehost import CodeHost
from tools.codehost.model.records import Ruleset

ORGANIZATION = {"type": "organization"}
MAIN = "change-freeze/main"


def add(town: Town, *names: str, branches: tuple[str, ...] = ("main",), pulls: int = 1, **columns: Any) -> None:
    """Add repositories on both sides, with watched branches and no rules."""
    organization = town.host.organization("acme")
    built = [organization.repository(name, branches=tuple(set(branches) - {"main"})) for name in names]
    if not town.host.world.installed:
        installed = organization.installed()
        factories.installation(town.session, town.organization, "acme", id=installed.id)
    for name, repository in zip(names, built, strict=True):
        for branch in branches * pulls:
            repository.pull_request(base=branch)
        record = repository.record
        row = factories.repository(
            town.session,
            town.organization,
            f"acme/{name}",
            github_id=record.id,
            node_id=record.node_id,
            **columns,
        )
        for branch in branches:
            town.branches[f"acme/{name}:{branch}"] = factories.branch(town.session, row, branch)
    town.session.commit()


def ask(town: Town, mode: str = "apply", scope: dict[str, Any] | None = None) -> dict[str, Any]:
    with town.units.open(Caller(town.organization.id, ADA, "dashboard", "business")) as unit:
        return set_up(unit, scope or ORGANIZATION, mode)


def work(town: Town) -> None:
    """Do everything that is due, the heads first."""
    for _ in range(20):
        town.settle()
        town.sql("UPDATE enforcement_setups SET due_at = clock_timestamp() - interval '1 s' WHERE due_at IS NOT NULL")
        if not apply_due(town.jobs, town.github):
            return
    raise AssertionError("the setup does not end")


def names(host: CodeHost) -> dict[str, list[str]]:
    """Return the rulesets at the code host: place → names."""
    found: dict[str, list[str]] = {}
    for ruleset in host.world.rulesets.values():
        above = ruleset.source_type == "Organization"
        place = (
            host.world.accounts[ruleset.source_id].login if above else host.world.repositories[ruleset.source_id].name
        )
        found.setdefault(place, []).append(ruleset.name)
    return found


def actions(view: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    return [(change["action"], change["level"], change["repository"]) for change in view["changes"]]


def audit(town: Town) -> list[str]:
    return [
        row[0]
        for row in town.sql("SELECT action FROM audit_entries WHERE action ~ 'ruleset|enforcement' ORDER BY at, id")
    ]


def abandoned_with_a_rule_of_others(town: Town) -> Ruleset:
    """Return the ruleset of a branch that is watched no more, to which people added a rule."""
    add(town, "web", branches=("main", "next"))
    ask(town)
    work(town)
    [ruleset] = [each for each in town.host.world.rulesets.values() if each.name.endswith("next")]
    ruleset.rules.append({"type": "deletion"})
    town.sql("UPDATE watched_branches SET unwatched_at = clock_timestamp() WHERE name = 'next'")
    return ruleset


def state(town: Town) -> tuple[str, int, str | None]:
    [row] = town.sql(
        "SELECT state, written, last_error_message FROM enforcement_setups ORDER BY created_at DESC LIMIT 1"
    )
    return tuple(row)


def permit(town: Town, **permissions: str) -> None:
    installation = next(iter(town.host.world.installations.values()))
    installation.permissions = {"metadata": "read", "checks": "write", **permissions}


class TestPlan:
    def test_one_ruleset_of_the_organisation_serves_repositories_that_share_a_pattern(self, town: Town) -> None:
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

    def test_a_single_repository_has_a_ruleset_of_its_own(self, town: Town) -> None:
        add(town, "web")
        assert actions(ask(town, "plan")) == [("create", "repository", "acme/web")]

    def test_a_part_of_the_organisation_has_rulesets_of_its_repositories(self, town: Town) -> None:
        add(town, "web", "api")
        view = ask(town, "plan", {"type": "repositories", "repositories": ["acme/web", "acme/api"]})
        assert sorted(actions(view)) == [("create", "repository", "acme/api"), ("create", "repository", "acme/web")]

    def test_without_the_organisations_permission_each_repository_has_its_own(self, town: Town) -> None:
        add(town, "web", "api")
        permit(town, administration="write")
        assert {level for _, level, _ in actions(ask(town, "plan"))} == {"repository"}

    def test_a_rule_of_others_that_requires_our_check_is_enough(self, town: Town) -> None:
        add(town, "web")
        town.host.organization("acme").repository("web").requires(MAIN, "main")
        assert actions(ask(town, "plan")) == [("none", "repository", "acme/web")]

    def test_a_rule_that_anybody_can_satisfy_is_not_enough(self, town: Town) -> None:
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

    def test_a_pattern_is_covered_before_any_branch_matches_it(self, town: Town) -> None:
        add(town, "web", auto_watch=["release/*"])
        assert [change["check_name"] for change in ask(town, "plan")["changes"]] == [MAIN, "change-freeze/release/*"]

    def test_a_rule_for_the_branches_of_today_does_not_cover_those_of_tomorrow(self, town: Town) -> None:
        add(town, "web", branches=("release/1",), auto_watch=["release/*"])
        town.host.organization("acme").repository("web").requires("change-freeze/release/*", "release/1")
        assert actions(ask(town, "plan")) == [("create", "repository", "acme/web")]

    def test_a_ruleset_of_others_with_our_name_is_left_alone(self, town: Town) -> None:
        add(town, "web")
        foreign = {"name": "Change freeze: main", "enforcement": "disabled", "rules": []}
        town.host.organization("acme").repository("web").ruleset(**foreign)
        [change] = ask(town, "plan")["changes"]
        assert (change["action"], change["after"]["name"]) == ("create", "Change freeze: main (2)")

    def test_a_scope_that_reaches_nothing_is_refused(self, town: Town) -> None:
        add(town, "web")
        with pytest.raises(ServiceError) as refused:
            ask(town, "plan", {"type": "glob", "patterns": ["other/*"]})
        assert refused.value.code == "no_targets_in_scope"


class TestApply:
    def test_a_job_writes_what_was_planned_records_and_audits_it(self, town: Town) -> None:
        add(town, "web", "api", branches=("main", "next"))
        assert ask(town)["state"] == "applying"
        work(town)
        assert names(town.host) == {"acme": ["Change freeze: main", "Change freeze: next"]}
        assert state(town) == ("done", 2, None)
        assert audit(town) == ["enforcement.setup_requested", "ruleset.created", "ruleset.created"]
        assert town.sql("SELECT count(*) FROM written_rulesets")[0][0] == 2

    def test_heads_have_their_verdicts_before_the_check_is_required(self, town: Town) -> None:
        add(town, "web")
        ask(town)
        assert apply_due(town.jobs, town.github)
        assert names(town.host) == {}
        town.settle()
        assert town.conclusions() == {"acme/web#1": "success"}
        work(town)
        assert names(town.host) == {"web": ["Change freeze: main"]}

    def test_heads_that_never_get_their_verdicts_hold_it_back_for_a_while_only(self, town: Town) -> None:
        add(town, "web")
        ask(town)
        town.sql(
            'UPDATE enforcement_setups SET progress = progress || \'{"headsAskedAt": "2026-01-01T00:00:00+00:00"}\''
        )
        assert apply_due(town.jobs, town.github)
        assert names(town.host) == {"web": ["Change freeze: main"]}

    def test_applying_again_changes_nothing(self, town: Town) -> None:
        add(town, "web", "api")
        ask(town)
        work(town)
        assert ask(town)["state"] == "applied"
        work(town)
        assert audit(town) == ["enforcement.setup_requested", "ruleset.created", "enforcement.setup_requested"]

    def test_a_loosened_ruleset_of_ours_is_mended_and_what_people_added_stays(self, town: Town) -> None:
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

    def test_a_new_repository_joins_the_organisations_ruleset(self, town: Town) -> None:
        add(town, "web", "api")
        ask(town)
        work(town)
        add(town, "docs")
        assert actions(ask(town)) == [("update", "organization", None)]
        work(town)
        [ruleset] = town.host.world.rulesets.values()
        assert len(ruleset.conditions["repository_id"]["repository_ids"]) == 3

    def test_what_nothing_needs_any_more_is_removed_with_the_whole_organisation_only(self, town: Town) -> None:
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

    def test_what_people_added_to_a_ruleset_stays_when_nothing_needs_our_check_any_more(self, town: Town) -> None:
        ruleset = abandoned_with_a_rule_of_others(town)
        assert sorted(change["action"] for change in ask(town)["changes"]) == ["none", "update"]
        work(town)
        assert ruleset.rules == [{"type": "deletion"}]
        assert len(names(town.host)["web"]) == 2
        assert town.sql("SELECT check_name FROM written_rulesets") == [(MAIN,)]
        assert audit(town)[-1] == "ruleset.updated"
        assert [change["action"] for change in ask(town)["changes"]] == ["none"]

    def test_repositories_that_have_their_own_are_left_with_them(self, town: Town) -> None:
        add(town, "web", "api")
        ask(town, scope={"type": "repositories", "repositories": ["acme/web", "acme/api"]})
        work(town)
        assert {action for action, _, _ in actions(ask(town))} == {"none"}
        work(town)
        assert names(town.host) == {"web": ["Change freeze: main"], "api": ["Change freeze: main"]}

    def test_a_ruleset_of_the_organisation_takes_the_place_of_those_of_repositories(self, town: Town) -> None:
        add(town, "web", "api")
        ask(town, scope={"type": "repositories", "repositories": ["acme/web"]})
        work(town)
        assert [(action, level) for action, level, _ in actions(ask(town))] == [
            ("create", "organization"),
            ("delete", "repository"),
        ]
        work(town)
        assert names(town.host) == {"acme": ["Change freeze: main"]}


class TestDeath:
    """What a worker that was killed leaves behind."""

    def test_a_creation_that_was_not_recorded_is_recognised(self, town: Town) -> None:
        add(town, "web")
        ask(town)
        town.settle()
        fault = town.host.faults.add("disconnect", "POST /repos/acme/web/rulesets", after=True, count=1)
        assert apply_due(town.jobs, town.github)
        town.host.faults.clear(fault.id)
        assert town.sql("SELECT count(*) FROM written_rulesets")[0][0] == 0
        work(town)
        assert names(town.host) == {"web": ["Change freeze: main"]}
        assert state(town)[:2] == ("done", 1)
        assert audit(town) == ["enforcement.setup_requested", "ruleset.created"]

    def test_what_somebody_else_wrote_just_so_is_not_taken_for_ours(self, town: Town) -> None:
        add(town, "web")
        [change] = ask(town, "plan")["changes"]
        town.host.organization("acme").repository("web").ruleset(**change["after"])
        assert actions(ask(town)) == [("none", "repository", "acme/web")]
        work(town)
        assert town.sql("SELECT count(*) FROM written_rulesets")[0][0] == 0

    def test_an_update_that_was_not_recorded_is_audited_once(self, town: Town) -> None:
        add(town, "web")
        ask(town)
        work(town)
        [ruleset] = town.host.world.rulesets.values()
        ruleset.enforcement = "evaluate"
        ask(town)
        town.settle()
        fault = town.host.faults.add("disconnect", f"PUT /repos/acme/web/rulesets/{ruleset.id}", after=True, count=1)
        assert apply_due(town.jobs, town.github)
        town.host.faults.clear(fault.id)
        work(town)
        assert audit(town)[-2:] == ["enforcement.setup_requested", "ruleset.updated"]

    def test_a_ruleset_that_was_given_up_without_a_record_is_ours_no_more(self, town: Town) -> None:
        ruleset = abandoned_with_a_rule_of_others(town)
        ask(town)
        town.settle()
        fault = town.host.faults.add("disconnect", f"PUT /repos/acme/web/rulesets/{ruleset.id}", after=True, count=1)
        assert apply_due(town.jobs, town.github)
        town.host.faults.clear(fault.id)
        work(town)
        assert ruleset.rules == [{"type": "deletion"}]
        assert town.sql("SELECT check_name FROM written_rulesets") == [(MAIN,)]
        assert audit(town)[-2:] == ["enforcement.setup_requested", "ruleset.updated"]

    def test_a_lease_that_ran_out_is_taken_over(self, town: Town) -> None:
        add(town, "web")
        ask(town)
        town.settle()
        town.sql("UPDATE enforcement_setups SET lease_until = clock_timestamp() + interval '50 s'")
        assert not apply_due(town.jobs, town.github)
        town.sql("UPDATE enforcement_setups SET lease_until = clock_timestamp() - interval '1 s'")
        assert apply_due(town.jobs, town.github)
        assert state(town)[0] == "done"


class DyingUnits(Units):
    """Units of a process that dies as it begins the n-th transaction: whatever went before has happened."""

    def __init__(self, units: Units, left: int) -> None:
        super().__init__(units.engine, units.clock, units.wakeups, units.surroundings)
        self.left = left

    @contextmanager
    def open(self, caller: Caller, *, read_only: bool = False) -> Iterator[Unit]:
        self.left -= 1
        if self.left < 0:
            raise DeathError
        with super().open(caller, read_only=read_only) as unit:
            yield unit


class DeathError(BaseException):
    """Nothing handles it, as nothing handles kill -9."""


@pytest.mark.parametrize("transactions", range(1, 12))
def test_wherever_a_worker_dies_each_ruleset_is_written_and_audited_once(town: Town, transactions: int) -> None:
    add(town, "web", "api", branches=("main", "next"))
    ask(town, scope={"type": "repositories", "repositories": ["acme/web", "acme/api"]})
    town.settle()
    with suppress(DeathError):
        apply_due(DyingUnits(town.jobs, transactions), town.github)
    town.sql("UPDATE enforcement_setups SET lease_until = clock_timestamp() - interval '1 s' WHERE due_at IS NOT NULL")
    work(town)
    both = ["Change freeze: main", "Change freeze: next"]
    assert names(town.host) == {"web": both, "api": both}
    assert state(town) == ("done", 4, None)
    assert audit(town) == ["enforcement.setup_requested"] + ["ruleset.created"] * 4
    assert town.sql("SELECT count(*) FROM written_rulesets")[0][0] == 4


class TestRefusals:
    def test_a_code_host_that_is_down_is_asked_again_later(self, town: Town) -> None:
        add(town, "web")
        ask(town)
        town.settle()
        fault = town.host.faults.add("error", "/repos/acme/web/rulesets", status=502)
        assert apply_due(town.jobs, town.github)
        assert not apply_due(town.jobs, town.github)
        assert state(town)[0] == "queued"
        town.host.faults.clear(fault.id)
        work(town)
        assert state(town)[0] == "done"

    def test_a_write_that_failed_leaves_no_deadline_to_what_is_done_next(self, town: Town) -> None:
        add(town, "web")
        ask(town)
        town.settle()
        town.host.faults.add("error", "POST /repos/acme/web/rulesets", status=502)
        gc.disable()  # what the error holds would else be freed sooner or later
        try:
            assert apply_due(town.jobs, town.github)
            assert STOPWATCH.get(None) is None
        finally:
            gc.enable()

    def test_a_limit_is_obeyed(self, town: Town) -> None:
        add(town, "web")
        ask(town)
        town.settle()
        message = "You have exceeded a secondary rate limit"
        town.host.faults.add("error", "POST /repos/acme/web/rulesets", status=403, message=message, count=1)
        assert apply_due(town.jobs, town.github)
        [(paused, due)] = town.sql(
            "SELECT i.paused_until - clock_timestamp(), s.due_at - clock_timestamp() "
            "FROM installations i, enforcement_setups s"
        )
        assert paused > timedelta(seconds=50)
        assert due > timedelta(seconds=50)

    def test_what_is_refused_for_good_is_told_and_the_rest_is_written(self, town: Town) -> None:
        add(town, "web", "api")
        scope = {"type": "repositories", "repositories": ["acme/web", "acme/api"]}
        ask(town, scope=scope)
        town.settle()
        town.host.faults.add("error", "POST /repos/acme/web/rulesets", status=403)
        work(town)
        assert names(town.host) == {"api": ["Change freeze: main"]}
        assert town.sql("SELECT id FROM enforcement_setups WHERE jsonb_exists(progress, 'writing')") == []
        outcome, written, told = state(town)
        assert (outcome, written) == ("failed", 1)
        assert told is not None
        assert "acme/web" in told
