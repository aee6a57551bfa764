"""What rules let in, asked of GitHub: who may merge, and when that ends."""

from typing import Any

import pytest

from rules.access.permissions import SYSTEM
from rules.notifications.sentences import sentence_of
from services.core.unit_of_work import GITHUB_CALLER
from services.exception_rules.changes import judge_again
from services.slack.facts import request_facts
from tests import factories
from tests.harness.github_harness import Harness
from tests.jobs.exception_rules.answers import rules_of_pull
from tests.jobs.exception_rules.conftest import AddRule
from tests.jobs.exception_rules.people import APPROVED, HOTFIX, People
from tests.jobs.pull_request_exceptions.grants import check, notify
from tools.fake_github.model.installations import accept_permissions
from tools.fake_github.model.records import PullRequest
from tools.fake_github.model.world import Actor


def lets_in(harness: Harness, pull: PullRequest) -> bool:
    """Have passes run until nothing is due; return whether GitHub would merge the pull request."""
    notify(harness)
    harness.run_until_idle()
    return harness.conclusions()[f"acme/web#{pull.number}"] == "success"


def rule_installation(harness: Harness) -> int:
    return int(harness.sql("SELECT id FROM installations")[0][0])


def audited(harness: Harness, action: str) -> list[Any]:
    return harness.sql(
        "SELECT details FROM audit_entries WHERE action = :action ORDER BY at, id", action=f"exception.{action}"
    )


def test_label_of_a_captain_lets_the_head_in(
    harness: Harness, pull: PullRequest, people: People, add_rule: AddRule
) -> None:
    rule = add_rule(HOTFIX, name="Hotfixes")
    assert not lets_in(harness, pull)

    people.label(pull, "captain")

    assert lets_in(harness, pull)
    assert harness.merge("acme/web", pull.number).status_code == 200
    [(details,)] = audited(harness, "granted")
    assert details["rule"] == {"id": rule.id, "name": "Hotfixes"}
    assert details["conditions"] == ["the label hotfix, set by @acme/captains on this head"]
    assert details["facts"]["labels"][0]["setBy"]["login"] == "captain"


def test_check_says_which_rule_lets_the_head_in(
    harness: Harness, pull: PullRequest, people: People, add_rule: AddRule
) -> None:
    add_rule(HOTFIX, name="Hotfixes")
    people.label(pull, "captain")
    lets_in(harness, pull)

    assert "granted by the rule “Hotfixes”" in check(harness, pull)["summary"]


@pytest.mark.parametrize("rule", [HOTFIX, APPROVED], ids=["label", "approval"])
def test_who_pushed_commits_of_somebody_else_does_not_let_them_in(
    harness: Harness, pull: PullRequest, people: People, add_rule: AddRule, rule: Any
) -> None:
    """Anyone can write a commit in another's name; GitHub records who pushed it."""
    add_rule(rule)
    people.push(pull, "captain")
    people.write(pull, "author")
    notify(harness)
    harness.run_until_idle()
    for vouch in (people.label, people.approve):
        vouch(pull, "captain")
    assert not lets_in(harness, pull)
    assert harness.merge("acme/web", pull.number).status_code == 405

    people.set_captains("captain", "deputy")
    people.unlabel(pull, "captain")
    for vouch in (people.label, people.approve):
        vouch(pull, "deputy")
    assert lets_in(harness, pull)


def test_label_counts_only_if_github_shows_who_pushed(
    harness: Harness, pull: PullRequest, people: People, add_rule: AddRule
) -> None:
    world, maintainer = harness.fake_github.world, Actor(harness.fake_github.maintainer)
    [installation] = world.installations.values()
    others = {name: level for name, level in installation.permissions.items() if name != "contents"}
    accept_permissions(world, maintainer, installation, others)
    add_rule(HOTFIX)
    people.label(pull, "captain")
    assert not lets_in(harness, pull)

    add_rule({"paths": {"onlyMatching": ["changes/**"]}}, name="Changes")
    assert lets_in(harness, pull)


@pytest.mark.parametrize("how", ["unlabel", "push", "team", "rename", "disable", "delete"])
def test_exception_ends_in_the_pass_that_sees_that_a_fact_has(
    harness: Harness, pull: PullRequest, people: People, add_rule: AddRule, how: str
) -> None:
    rule = add_rule(HOTFIX)
    people.label(pull, "captain")
    assert lets_in(harness, pull)

    if how == "unlabel":
        people.unlabel(pull, "captain")
    elif how == "push":
        people.push(pull, "author")
    elif how == "team":
        people.set_captains("nobody")
        with harness.jobs.open(GITHUB_CALLER) as uow:
            judge_again(uow, rule_installation(harness), people.team)
    elif how == "rename":
        harness.person("PATCH", "/repos/acme/web/labels/hotfix", {"new_name": "other"})
    elif how == "disable":
        harness.sql("UPDATE exception_rules SET enabled = false")
    else:
        harness.sql("DELETE FROM exception_rules WHERE id = :id", id=rule.id)
    notify(harness)
    harness.reconciler.run_pass()

    assert set(harness.conclusions().values()) == {"failure"}
    assert harness.merge("acme/web", pull.number).status_code == 405
    assert len(audited(harness, "revoked")) == 1


def test_pull_request_shows_what_each_rule_misses(
    harness: Harness, pull: PullRequest, people: People, add_rule: AddRule
) -> None:
    add_rule(HOTFIX, name="Hotfixes")
    people.label(pull, "mallory")
    lets_in(harness, pull)

    [rule] = rules_of_pull(harness)
    assert (rule["rule_name"], rule["outcome"]) == ("Hotfixes", "missed")
    assert rule["conditions"] == [
        {
            "outcome": "missed",
            "requires": "the label hotfix, set by @acme/captains on this head",
            "found": "It was set by mallory.",
        }
    ]


@pytest.mark.parametrize("forbidden", ["exceptions_allowed", "exception_rules_allowed"])
def test_freeze_that_permits_no_exceptions_by_rules_is_passed_by_none(
    harness: Harness, pull: PullRequest, people: People, add_rule: AddRule, forbidden: str
) -> None:
    harness.freeze({"type": "organization"}, **{forbidden: False})
    add_rule(HOTFIX)
    people.label(pull, "captain")

    assert not lets_in(harness, pull)


def test_messages_name_the_rule(harness: Harness, pull: PullRequest, people: People, add_rule: AddRule) -> None:
    add_rule(HOTFIX, name="Hotfixes")
    people.label(pull, "captain")
    assert lets_in(harness, pull)
    people.unlabel(pull, "captain")
    lets_in(harness, pull)

    entries = harness.sql(
        "SELECT action, actor, target, details FROM audit_entries WHERE action LIKE 'exception.%' ORDER BY at, id"
    )
    [(exception_id,)] = harness.sql("SELECT id FROM exceptions")
    with harness.unit(SYSTEM, "api") as uow:
        facts = request_facts(uow, [exception_id])
    assert [sentence_of(*entry) for entry in entries] == [
        "The rule “Hotfixes” granted an exception for acme/web#1.",
        "The rule “Hotfixes” revoked an exception for acme/web#1.",
    ]
    assert facts is not None
    assert (facts["by"], facts["decided"]["by"]) == ("the rule “Hotfixes”", "the rule “Hotfixes”")


def test_plan_without_exceptions_has_no_rules(
    harness: Harness, pull: PullRequest, people: People, add_rule: AddRule
) -> None:
    add_rule(HOTFIX)
    people.label(pull, "captain")
    factories.change_plan(harness.session, harness.organization, "free")
    harness.session.commit()

    assert not lets_in(harness, pull)
