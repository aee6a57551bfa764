"""A setup that forbids deletion: branches with a rule of their own cannot be deleted, frozen or not."""

from services.core.unit_of_work import Caller
from services.enforcement.ruleset_removal import withdraw
from services.enforcement.setup_plans import set_up
from services.enforcement.setup_runs import apply_due
from tests.factories.plans import BUSINESS
from tests.harness.github_harness import ADA, Harness
from tests.jobs.frozen_branches.requests import creates, deletes
from tests.jobs.setup.requests import ORGANIZATION, add, ask, done, work

DELETION = {"type": "deletion"}


def caller(harness: Harness) -> Caller:
    return Caller(harness.organization.id, ADA, "dashboard", BUSINESS)


def forbid(harness: Harness) -> None:
    """Set acme/web up so that its branches cannot be deleted."""
    add(harness, "web", branches=("main", "next", "release/1"), pulls=0, auto_watch=["release/*"])
    with harness.uow_factory.open(caller(harness)) as uow:
        assert set_up(uow, ORGANIZATION, "apply", forbid_deletion=True)["state"] == "applying"
    work(harness)


def forbidding(harness: Harness) -> dict[str, bool]:
    """Return which rulesets at GitHub forbid deletion, by the branch or pattern in their names."""
    return {
        each.name.removeprefix("Change freeze: "): DELETION in each.rules
        for each in harness.fake_github.world.rulesets.values()
    }


def test_branch_cannot_be_deleted_but_another_of_its_pattern_can(harness: Harness) -> None:
    forbid(harness)
    assert forbidding(harness) == {"main": True, "next": True, "release/1": True, "release/*": False}
    assert (deletes(harness, "next"), deletes(harness, "release/1")) == (422, 422)
    assert (creates(harness, "release/2"), deletes(harness, "release/2")) == (201, 204)


def test_later_setups_keep_the_rule(harness: Harness) -> None:
    forbid(harness)
    assert {change["action"] for change in ask(harness)["changes"]} == {"none"}
    [ruleset] = [each for each in harness.fake_github.world.rulesets.values() if each.name.endswith("next")]
    ruleset.enforcement = "disabled"
    ask(harness)
    work(harness)
    assert (ruleset.enforcement, DELETION in ruleset.rules) == ("active", True)


def test_unneeded_ruleset_is_removed_with_its_rule(harness: Harness) -> None:
    forbid(harness)
    harness.sql("UPDATE watched_branches SET unwatched_at = clock_timestamp() WHERE name = 'next'")
    ask(harness)
    work(harness)
    assert set(forbidding(harness)) == {"main", "release/1", "release/*"}
    assert deletes(harness, "next") == 204


def test_rule_that_people_added_stays_when_the_ruleset_is_not_needed(harness: Harness) -> None:
    done(harness, "web", branches=("main", "next"), pulls=0)
    [ruleset] = [each for each in harness.fake_github.world.rulesets.values() if each.name.endswith("next")]
    ruleset.rules.append(DELETION)
    with harness.uow_factory.open(caller(harness)) as uow:
        set_up(uow, ORGANIZATION, "apply", forbid_deletion=True)
    work(harness)
    harness.sql("UPDATE watched_branches SET unwatched_at = clock_timestamp() WHERE name = 'next'")
    ask(harness)
    work(harness)
    assert ruleset.rules == [DELETION]


def test_withdrawal_removes_the_rule(harness: Harness) -> None:
    forbid(harness)
    assert withdraw(harness.jobs, harness.github, caller(harness)) == []
    assert forbidding(harness) == {}


def test_interrupted_setup_still_forbids_deletion(harness: Harness) -> None:
    add(harness, "web", pulls=0)
    with harness.uow_factory.open(caller(harness)) as uow:
        set_up(uow, ORGANIZATION, "apply", forbid_deletion=True)
    harness.run_until_idle()
    harness.fake_github.faults.add("disconnect", "POST /repos/acme/web/rulesets", after=True, count=1)
    assert apply_due(harness.jobs, harness.github)
    work(harness)
    assert forbidding(harness) == {"main": True}
    assert harness.sql("SELECT check_name, forbids_deletion FROM written_rulesets") == [("change-freeze/main", True)]


def test_rule_of_others_for_the_check_alone_is_not_sufficient(harness: Harness) -> None:
    add(harness, "web", pulls=0)
    harness.fake_github.organization("acme").repository("web").requires("change-freeze/main", "main")
    with harness.uow_factory.open(caller(harness)) as uow:
        [change] = set_up(uow, ORGANIZATION, "plan", forbid_deletion=True)["changes"]
    assert (change["action"], DELETION in change["after"]["rules"]) == ("create", True)
