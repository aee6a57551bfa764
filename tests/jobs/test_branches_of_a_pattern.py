"""Branches of one pattern are frozen one by one: no commit that may enter one of them enters another that is frozen."""

import pytest
import requests

from rules.access import permissions
from rules.rulesets.plans import Change
from services.core.unit_of_work import Caller
from services.enforcement.survey import Survey
from services.pull_request_exceptions.decisions import grant
from services.pull_request_exceptions.requests import ExceptionInput
from services.pull_request_exceptions.views import ExceptionFilters, list_exceptions
from services.pull_requests.views import views as pull_views
from services.repositories.auto_watch import watch_new_branches
from services.repositories.tracked_pull_requests import tracked
from services.repositories.watches import unwatch, watch_branch
from tests.factories.plans import BUSINESS
from tests.harness.github_harness import Harness
from tests.jobs.probes.requests import look, permit, probe
from tests.jobs.setup.requests import add, ask, state, work
from tools.fake_github.model import rulesets
from tools.fake_github.model.records import PullRequest
from tools.fake_github.model.rulesets import delete_ruleset
from tools.fake_github.model.world import Actor

PIPELINE = permissions.Actor("api_key", "key_pipeline", "pipeline")
"""Grants exceptions."""
FROZEN, OPEN = "release/1.x", "release/2.x"
PATTERN_CHECK = "change-freeze/release/*"


@pytest.fixture
def releases(harness: Harness) -> Harness:
    """Return a harness whose repository watches `release/*`, with rules that a setup has written."""
    add(harness, "web", branches=("main", FROZEN, OPEN), pulls=0, auto_watch=["release/*"])
    ask(harness)
    work(harness)
    look(harness)
    assert harness.sql("SELECT DISTINCT light FROM branch_enforcement") == [("green",)]
    return harness


def frozen_branch(harness: Harness) -> str:
    return harness.freeze({"type": "branch", "branchId": harness.branches[f"acme/web:{FROZEN}"].id})


def proposed(harness: Harness, base: str) -> PullRequest:
    """Return a new pull request whose checks are written."""
    pull = harness.fake_github.organization("acme").repository("web").pull_request(base=base)
    settle(harness)
    return pull


def settle(harness: Harness) -> None:
    harness.make_due("wanted_generation = wanted_generation + 1")
    harness.run_until_idle()


def push(harness: Harness, branch: str, sha: str) -> requests.Response:
    """Move a branch forward to a commit, as a person does."""
    return harness.person("PATCH", f"/repos/acme/web/git/refs/heads/{branch}", {"sha": sha})


def retarget(harness: Harness, pull: PullRequest, base: str) -> None:
    assert harness.person("PATCH", f"/repos/acme/web/pulls/{pull.number}", {"base": base}).status_code == 200


def propose_the_same(harness: Harness, pull: PullRequest, base: str) -> int:
    """Open another pull request with the head of one that is there."""
    body = {"title": "The same", "head": pull.head_ref, "base": base}
    answer = harness.person("POST", "/repos/acme/web/pulls", body)
    assert answer.status_code == 201, answer.text
    number: int = answer.json()["number"]
    return number


def except_(harness: Harness, pull: PullRequest, *, pin: bool) -> None:
    with harness.uow_factory.open(Caller(harness.organization.id, PIPELINE, "api", BUSINESS)) as uow:
        grant(uow, f"acme/web#{pull.number}", None, ExceptionInput("The hotfix that has to go in", None, pin))
    settle(harness)


def test_commit_that_is_green_for_a_sibling_is_not_pushed_to_a_frozen_branch(releases: Harness) -> None:
    frozen_branch(releases)
    releases.run_until_idle()
    pull = proposed(releases, OPEN)
    assert push(releases, FROZEN, pull.head_sha).status_code == 422
    assert releases.merge("acme/web", pull.number).status_code == 200


def test_pull_request_that_gets_a_frozen_base_cannot_be_merged_at_once(releases: Harness) -> None:
    frozen_branch(releases)
    releases.run_until_idle()
    pull = proposed(releases, OPEN)
    retarget(releases, pull, FROZEN)
    assert releases.merge("acme/web", pull.number).status_code == 405
    settle(releases)
    assert releases.merge("acme/web", pull.number).status_code == 405


def test_second_pull_request_on_a_green_head_cannot_be_merged_at_once(releases: Harness) -> None:
    frozen_branch(releases)
    releases.run_until_idle()
    pull = proposed(releases, OPEN)
    second = propose_the_same(releases, pull, FROZEN)
    assert releases.merge("acme/web", second).status_code == 405
    settle(releases)
    assert releases.merge("acme/web", second).status_code == 405
    assert releases.merge("acme/web", pull.number).status_code == 200


@pytest.mark.parametrize("pin", [True, False])
def test_exception_for_one_branch_does_not_open_another(releases: Harness, *, pin: bool) -> None:
    pull = proposed(releases, OPEN)
    releases.freeze()
    releases.run_until_idle()
    assert releases.merge("acme/web", pull.number).status_code == 405
    except_(releases, pull, pin=pin)
    assert push(releases, FROZEN, pull.head_sha).status_code == 422
    second = propose_the_same(releases, pull, FROZEN)
    assert releases.merge("acme/web", second).status_code == 405
    settle(releases)
    assert releases.merge("acme/web", second).status_code == 405
    assert releases.merge("acme/web", pull.number).status_code == 200


def test_both_checks_of_a_head_are_written_by_one_mutation(releases: Harness) -> None:
    web = releases.fake_github.organization("acme").repository("web")
    heads = {web.pull_request(base=base).head_sha for base in (FROZEN, OPEN) for _ in range(12)}
    settle(releases)
    releases.fake_github.calls.reset()
    releases.freeze()
    releases.run_until_idle()
    calls = releases.fake_github.calls
    assert len(calls.writes) == 2 * len(heads)
    assert sum(count for name, count in calls.by_operation.items() if "createCheckRun" in name) == 1
    assert {write["headSha"] for write in calls.writes} == heads


class TestBranchWithoutARuleOfItsOwn:
    """The release that is frozen has none: the check of the pattern protects it."""

    @pytest.fixture(autouse=True)
    def _without_rule(self, releases: Harness) -> None:
        world = releases.fake_github.world
        [ruleset] = [each for each in world.rulesets.values() if each.name == f"Change freeze: {FROZEN}"]
        with world.lock:
            delete_ruleset(world, Actor(releases.fake_github.maintainer), ruleset)
        look(releases)

    def test_light_is_amber_and_names_the_step(self, releases: Harness) -> None:
        branch = releases.branches[f"acme/web:{FROZEN}"]
        [row] = releases.sql(
            "SELECT light, own_rule, findings FROM branch_enforcement WHERE branch_id = :id", id=branch.id
        )
        assert (row.light, row.own_rule) == ("amber", False)
        assert [finding["code"] for finding in row.findings] == ["own_check_not_required"]
        assert "Set up enforcement" in row.findings[0]["message"]

    def test_commit_of_a_sibling_does_not_enter_it(self, releases: Harness) -> None:
        pull = proposed(releases, OPEN)
        freeze = frozen_branch(releases)
        releases.run_until_idle()
        assert push(releases, FROZEN, pull.head_sha).status_code == 422
        refused = releases.merge("acme/web", pull.number)
        assert refused.status_code == 405
        assert f'"{PATTERN_CHECK}" is failing' in refused.json()["message"]
        releases.lift(freeze)
        releases.run_until_idle()
        assert releases.merge("acme/web", pull.number).status_code == 200

    def test_freeze_is_enforced_only_when_siblings_are_written(self, releases: Harness) -> None:
        """The pass over the frozen branch writes the heads of its siblings as well, before its target is applied."""
        pull = proposed(releases, OPEN)
        frozen_branch(releases)
        releases.sql("UPDATE watched_branches SET due_at = NULL WHERE name <> :name", name=FROZEN)
        releases.run_until_idle()
        assert releases.sql("SELECT state FROM freeze_targets") == [("applied",)]
        assert push(releases, FROZEN, pull.head_sha).status_code == 422

    def test_head_that_arrives_during_the_freeze_is_blocked(self, releases: Harness) -> None:
        frozen_branch(releases)
        releases.run_until_idle()
        pull = proposed(releases, OPEN)
        assert releases.merge("acme/web", pull.number).status_code == 405

    def test_exception_for_a_sibling_waits_for_the_rule(self, releases: Harness) -> None:
        pull = proposed(releases, OPEN)
        releases.freeze()
        releases.run_until_idle()
        except_(releases, pull, pin=True)
        assert releases.merge("acme/web", pull.number).status_code == 405
        with releases.uow_factory.open(Caller(releases.organization.id, PIPELINE, "api", BUSINESS)) as uow:
            [shown] = list_exceptions(uow, "list_exceptions", ExceptionFilters(), None, 50).data
            [pull_shown] = pull_views(uow, tracked(uow, [shown["pull_request"]["id"]]))
        assert (shown["effective"], shown["ineffective_reason"]) == (False, "pattern_blocked")
        assert pull_shown["verdict"] == "blocked"
        assert pull_shown["check"]["conclusion"] == "success"
        assert pull_shown["pattern_check"]["conclusion"] == "failure"
        assert f"`{FROZEN}`" in pull_shown["pattern_check"]["summary"]

    def test_new_rule_opens_the_siblings(self, releases: Harness) -> None:
        pull = proposed(releases, OPEN)
        frozen_branch(releases)
        releases.run_until_idle()
        ask(releases)
        work(releases)
        look(releases)
        releases.run_until_idle()
        assert push(releases, FROZEN, pull.head_sha).status_code == 422
        assert releases.merge("acme/web", pull.number).status_code == 200


def test_branch_beyond_the_limit_of_rulesets_is_protected_by_its_pattern(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rulesets, "MAX_RULESETS", 3)
    add(harness, "web", branches=("main", FROZEN, OPEN), pulls=0, auto_watch=["release/*"])
    ask(harness)
    work(harness)
    assert "1 could not be written: acme/web" in str(state(harness)[2])
    look(harness)
    written = {each.name.removeprefix("Change freeze: ") for each in harness.fake_github.world.rulesets.values()}
    assert written == {"release/*", "main", FROZEN}
    pull = proposed(harness, FROZEN)
    harness.freeze({"type": "branch", "branchId": harness.branches[f"acme/web:{OPEN}"].id})
    harness.run_until_idle()
    assert push(harness, OPEN, pull.head_sha).status_code == 422


class TestDeletedBranch:
    """A branch of the pattern that was deleted at GitHub, and the rule that it had."""

    NEW = "release/3.x"

    @pytest.fixture
    def full(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> Harness:
        """Return a harness with as many rulesets as GitHub accepts, where the branch of one was deleted."""
        monkeypatch.setattr(rulesets, "MAX_RULESETS", 4)
        add(harness, "web", branches=("main", FROZEN, OPEN), pulls=0, auto_watch=["release/*"])
        ask(harness)
        work(harness)
        harness.run_until_idle()
        assert harness.person("DELETE", f"/repos/acme/web/git/refs/heads/{OPEN}").status_code == 204
        look(harness)
        return harness

    def new_branch(self, harness: Harness) -> None:
        """Create a third release, and have the rules written that it needs."""
        harness.fake_github.organization("acme").repository("web").branch(self.NEW)
        with harness.uow_factory.open(Caller(harness.organization.id, PIPELINE, "api", BUSINESS)) as uow:
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
        planned = Survey.below

        def freeze_after(survey: Survey, repository_id: str) -> list[Change]:
            changes = planned(survey, repository_id)
            monkeypatch.undo()
            full.freeze({"type": "branch", "branchId": full.branches[f"acme/web:{OPEN}"].id})
            return changes

        ask(full)
        monkeypatch.setattr(Survey, "below", freeze_after)
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
        with full.uow_factory.open(Caller(full.organization.id, PIPELINE, "api", BUSINESS)) as uow:
            unwatch(uow, full.branches[f"acme/web:{OPEN}"].id)
        self.new_branch(full)
        assert self.rules(full) == {"release/*", "main", FROZEN, self.NEW}
        full.fake_github.organization("acme").repository("web").branch(OPEN)
        [[repository_id]] = full.sql("SELECT id FROM repositories")
        watch_new_branches(full.jobs, Caller(full.organization.id, PIPELINE, "api", BUSINESS), repository_id, [OPEN])
        assert not self.is_watched(full, OPEN)

    def test_branch_without_a_pattern_keeps_its_rule(self, harness: Harness) -> None:
        add(harness, "web", branches=("main", "next"), pulls=0)
        ask(harness)
        work(harness)
        harness.run_until_idle()
        assert harness.person("DELETE", "/repos/acme/web/git/refs/heads/next").status_code == 204
        look(harness)
        assert {change["action"] for change in ask(harness, "plan")["changes"]} == {"none"}

    def test_branch_that_does_not_exist_yet_gets_its_rule(self, releases: Harness) -> None:
        with releases.uow_factory.open(Caller(releases.organization.id, PIPELINE, "api", BUSINESS)) as uow:
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
        with harness.uow_factory.open(Caller(harness.organization.id, PIPELINE, "api", BUSINESS)) as uow:
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
    def test_new_branch_waits_for_an_administrator_where_we_may_not_write(
        self, releases: Harness, lacking: str
    ) -> None:
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
        with world.lock:
            delete_ruleset(world, Actor(releases.fake_github.maintainer), ruleset)
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
