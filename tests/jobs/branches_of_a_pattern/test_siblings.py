"""Branches of one pattern are frozen one by one: no commit that may enter one of them enters another that is frozen."""

import pytest

from services.pull_request_exceptions.views import ExceptionFilters, list_exceptions
from services.pull_requests.views import views as pull_views
from services.repositories.tracked_pull_requests import tracked
from tests.harness.github_harness import Harness
from tests.harness.people import edit
from tests.harness.pipeline import by_pipeline
from tests.jobs.branches_of_a_pattern.requests import (
    FROZEN,
    OPEN,
    frozen_branch,
    grant_exception,
    propose_the_same,
    proposed,
    push,
    settle,
)
from tests.jobs.probes.requests import look
from tests.jobs.setup.requests import ask, done, state, work
from tools.fake_github.model import rulesets
from tools.fake_github.model.rulesets import delete_ruleset

PATTERN_CHECK = "change-freeze/release/*"


def test_commit_green_for_a_sibling_is_not_pushed_to_a_frozen_branch(releases: Harness) -> None:
    frozen_branch(releases)
    releases.run_until_idle()
    pull = proposed(releases, OPEN)
    assert push(releases, FROZEN, pull.head_sha).status_code == 422
    assert releases.merge("acme/web", pull.number).status_code == 200


def test_pull_request_that_gets_a_frozen_base_cannot_be_merged_at_once(releases: Harness) -> None:
    frozen_branch(releases)
    releases.run_until_idle()
    pull = proposed(releases, OPEN)
    edit(releases, pull.number, base=FROZEN)
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
    grant_exception(releases, pull, pin=pin)
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
        releases.act(delete_ruleset, ruleset)
        look(releases)

    def test_light_of_a_branch_without_a_rule_is_amber_and_names_the_step(self, releases: Harness) -> None:
        branch = releases.branches[f"acme/web:{FROZEN}"]
        [row] = releases.sql(
            "SELECT light, own_rule, findings FROM branch_enforcement WHERE branch_id = :id", id=branch.id
        )
        assert (row.light, row.own_rule) == ("amber", False)
        assert [finding["code"] for finding in row.findings] == ["own_check_not_required"]
        assert "Set up enforcement" in row.findings[0]["message"]

    def test_commit_of_a_sibling_does_not_enter_a_branch_without_a_rule(self, releases: Harness) -> None:
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
        """The target of the frozen branch waits for the check of its pattern, which its siblings' heads have."""
        pull = proposed(releases, OPEN)
        frozen_branch(releases)
        releases.sql("UPDATE checks SET due_at = NULL WHERE branch_id IS NULL")
        releases.run_until_idle()
        assert releases.sql("SELECT state FROM freeze_targets") == [("pending",)]
        releases.make_due()
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
        grant_exception(releases, pull, pin=True)
        assert releases.merge("acme/web", pull.number).status_code == 405
        with by_pipeline(releases) as uow:
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
    done(harness, "web", branches=("main", FROZEN, OPEN), pulls=0, auto_watch=["release/*"])
    assert "1 could not be written: acme/web" in str(state(harness)[2])
    look(harness)
    written = {each.name.removeprefix("Change freeze: ") for each in harness.fake_github.world.rulesets.values()}
    assert written == {"release/*", "main", FROZEN}
    pull = proposed(harness, FROZEN)
    harness.freeze({"type": "branch", "branchId": harness.branches[f"acme/web:{OPEN}"].id})
    harness.run_until_idle()
    assert push(harness, OPEN, pull.head_sha).status_code == 422
