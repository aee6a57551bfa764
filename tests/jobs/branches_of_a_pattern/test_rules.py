"""Rules of branches that join a pattern, and of branches that are deleted."""

import pytest

from rules.rulesets.plans import Change
from services.core.unit_of_work import Caller
from services.enforcement.survey import Survey
from services.repositories.auto_watch import watch_new_branches
from services.repositories.watches import unwatch, watch_branch
from tests.factories.plans import BUSINESS
from tests.harness.github_harness import Harness
from tests.harness.pipeline import PIPELINE, by_pipeline
from tests.jobs.branches_of_a_pattern.requests import (
    FROZEN,
    OPEN,
    proposed,
    push,
)
from tests.jobs.probes.requests import look, permit, probe
from tests.jobs.setup.requests import ask, done, work
from tools.fake_github.model import rulesets
from tools.fake_github.model.rulesets import delete_ruleset


class TestDeletedBranch:
    """A branch of the pattern that was deleted at GitHub, and the rule that it had."""

    NEW = "release/3.x"

    @pytest.fixture
    def full(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> Harness:
        """Return a harness with as many rulesets as GitHub accepts, where the branch of one was deleted."""
        monkeypatch.setattr(rulesets, "MAX_RULESETS", 4)
        done(harness, "web", branches=("main", FROZEN, OPEN), pulls=0, auto_watch=["release/*"])
        harness.run_until_idle()
        assert harness.person("DELETE", f"/repos/acme/web/git/refs/heads/{OPEN}").status_code == 204
        look(harness)
        return harness

    def new_branch(self, harness: Harness) -> None:
        """Create a third release, and have the rules written that it needs."""
        harness.fake_github.organization("acme").repository("web").branch(self.NEW)
        with by_pipeline(harness) as uow:
            watch_branch(uow, "acme/web", self.NEW)
        probe(harness)
        work(harness)

    def rules(self, harness: Harness) -> set[str]:
        return {each.name.removeprefix("Change freeze: ") for each in harness.fake_github.world.rulesets.values()}

    def is_watched(self, harness: Harness, branch: str) -> bool:
        [[watched]] = harness.sql("SELECT unwatched_at IS NULL FROM watched_branches WHERE name = :name", name=branch)
        return bool(watched)

    def test_rule_of_a_deleted_branch_makes_room_for_that_of_a_new_one(self, full: Harness) -> None:
        self.new_branch(full)
        assert self.rules(full) == {"release/*", "main", FROZEN, self.NEW}
        assert not self.is_watched(full, OPEN)
        assert full.sql("SELECT count(*) FROM written_rulesets") == [(4,)]
        entries = full.sql("SELECT action, source FROM audit_entries ORDER BY at DESC LIMIT 20")
        assert {("branch.unwatched", "system"), ("ruleset.deleted", "system")} <= {tuple(row) for row in entries}

    def test_plan_shows_that_the_rule_of_a_deleted_branch_is_removed(self, full: Harness) -> None:
        planned = ask(full, "plan")["changes"]
        assert [change["check_name"] for change in planned if change["action"] == "delete"] == [f"change-freeze/{OPEN}"]
        assert self.is_watched(full, OPEN)

    def test_rule_of_a_frozen_branch_stays(self, full: Harness) -> None:
        frozen = full.freeze({"type": "branch", "branchId": full.branches[f"acme/web:{OPEN}"].id})
        full.run_until_idle()
        self.new_branch(full)
        assert self.rules(full) == {"release/*", "main", FROZEN, OPEN}
        assert self.is_watched(full, OPEN)
        full.lift(frozen)
        ask(full)
        work(full)
        assert self.rules(full) == {"release/*", "main", FROZEN, self.NEW}

    def test_rule_of_a_branch_that_was_frozen_after_the_plan_stays(
        self, full: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        planned = Survey.repository_changes

        def freeze_after(survey: Survey, repository_id: str) -> list[Change]:
            changes = planned(survey, repository_id)
            monkeypatch.undo()
            full.freeze({"type": "branch", "branchId": full.branches[f"acme/web:{OPEN}"].id})
            return changes

        ask(full)
        monkeypatch.setattr(Survey, "repository_changes", freeze_after)
        work(full)
        assert OPEN in self.rules(full)
        assert self.is_watched(full, OPEN)

    def test_rule_of_a_branch_that_is_there_again_stays(self, full: Harness) -> None:
        full.fake_github.organization("acme").repository("web").branch(OPEN)
        assert {change["action"] for change in ask(full, "plan")["changes"]} == {"none"}

    def test_branch_that_is_created_again_is_watched_and_gets_its_rule(
        self, full: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.new_branch(full)
        monkeypatch.setattr(rulesets, "MAX_RULESETS", 5)
        full.fake_github.organization("acme").repository("web").branch(OPEN)
        caller = Caller(full.organization.id, PIPELINE, "api", BUSINESS)
        [[repository_id]] = full.sql("SELECT id FROM repositories")
        watch_new_branches(full.jobs, caller, repository_id, [OPEN])
        assert self.is_watched(full, OPEN)
        probe(full)
        work(full)
        assert OPEN in self.rules(full)

    def test_branch_that_people_unwatched_stays_unwatched(self, full: Harness) -> None:
        with by_pipeline(full) as uow:
            unwatch(uow, full.branches[f"acme/web:{OPEN}"].id)
        self.new_branch(full)
        assert self.rules(full) == {"release/*", "main", FROZEN, self.NEW}
        full.fake_github.organization("acme").repository("web").branch(OPEN)
        [[repository_id]] = full.sql("SELECT id FROM repositories")
        watch_new_branches(full.jobs, Caller(full.organization.id, PIPELINE, "api", BUSINESS), repository_id, [OPEN])
        assert not self.is_watched(full, OPEN)

    def test_branch_without_a_pattern_keeps_its_rule(self, harness: Harness) -> None:
        done(harness, "web", branches=("main", "next"), pulls=0)
        harness.run_until_idle()
        assert harness.person("DELETE", "/repos/acme/web/git/refs/heads/next").status_code == 204
        look(harness)
        assert {change["action"] for change in ask(harness, "plan")["changes"]} == {"none"}

    def test_branch_that_does_not_exist_yet_gets_its_rule(self, releases: Harness) -> None:
        with by_pipeline(releases) as uow:
            watch_branch(uow, "acme/web", self.NEW)
        probe(releases)
        work(releases)
        assert self.NEW in self.rules(releases)


class TestNewBranch:
    """A branch of the pattern that begins to be watched."""

    NEW = "release/3.x"

    def watched(self, harness: Harness) -> str:
        """Watch a third release, as its webhook would; return its id."""
        harness.fake_github.organization("acme").repository("web").branch(self.NEW)
        with by_pipeline(harness) as uow:
            branch_id: str = watch_branch(uow, "acme/web", self.NEW).id
        return branch_id

    def enforcement(self, harness: Harness, branch_id: str) -> tuple[str, bool]:
        [row] = harness.sql("SELECT light, own_rule FROM branch_enforcement WHERE branch_id = :id", id=branch_id)
        return row.light, row.own_rule

    def test_new_branch_gets_a_rule_of_its_own_when_the_app_may_write(self, releases: Harness) -> None:
        branch_id = self.watched(releases)
        probe(releases)
        assert self.enforcement(releases, branch_id) == ("amber", False)
        work(releases)
        probe(releases)
        assert self.enforcement(releases, branch_id) == ("green", True)
        created = "SELECT source FROM audit_entries WHERE action = 'ruleset.created' AND target ->> 'name' = :name"
        assert releases.sql(created, name=f"Change freeze: {self.NEW}") == [("system",)]

    @pytest.mark.parametrize("lacking", ["permission", "authorization"])
    def test_new_branch_gets_no_rule_when_the_app_may_not_write(self, releases: Harness, lacking: str) -> None:
        if lacking == "permission":
            permit(releases, "administration")
        else:
            releases.sql("UPDATE repositories SET rulesets_authorized_at = NULL")
        branch_id = self.watched(releases)
        probe(releases)
        assert releases.sql("SELECT count(*) FROM enforcement_setups WHERE state = 'queued'") == [(0,)]
        assert self.enforcement(releases, branch_id)[1] is False

    def test_rule_that_people_removed_stays_removed(self, releases: Harness) -> None:
        branch_id = self.watched(releases)
        probe(releases)
        work(releases)
        probe(releases)
        world = releases.fake_github.world
        [ruleset] = [each for each in world.rulesets.values() if each.name == f"Change freeze: {self.NEW}"]
        releases.act(delete_ruleset, ruleset)
        look(releases)
        assert self.enforcement(releases, branch_id) == ("amber", False)
        assert releases.sql("SELECT count(*) FROM enforcement_setups WHERE state = 'queued'") == [(0,)]

    def test_new_branch_is_closed_to_siblings_before_it_has_a_rule(self, releases: Harness) -> None:
        pull = proposed(releases, OPEN)
        branch_id = self.watched(releases)
        releases.freeze({"type": "branch", "branchId": branch_id})
        releases.run_until_idle()
        assert push(releases, self.NEW, pull.head_sha).status_code == 422
        probe(releases)
        work(releases)
        probe(releases)
        releases.run_until_idle()
        assert push(releases, self.NEW, pull.head_sha).status_code == 422
        assert releases.merge("acme/web", pull.number).status_code == 200
