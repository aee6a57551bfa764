"""Rules that name a team which does not exist any more."""

import pytest

from tests.harness.github_harness import Harness
from tests.harness.webhook_queue import WebhookQueue
from tests.jobs.exception_rules.answers import rules_of_pull
from tests.jobs.exception_rules.conftest import AddRule
from tests.jobs.exception_rules.people import HOTFIX, People
from tests.jobs.pull_request_exceptions.grants import notify, pass_by
from tools.fake_github.model.records import PullRequest


@pytest.fixture
def webhooks(harness: Harness) -> WebhookQueue:
    return WebhookQueue(harness)


@pytest.fixture
def let_in(
    harness: Harness, webhooks: WebhookQueue, pull: PullRequest, people: People, add_rule: AddRule
) -> PullRequest:
    """Return a pull request that a captain has let in by a label."""
    add_rule(HOTFIX)
    people.label(pull, "captain")
    webhooks.run()
    assert set(harness.conclusions().values()) == {"success"}
    return pull


def test_head_is_blocked_in_the_pass_after_the_team_is_deleted(
    harness: Harness, webhooks: WebhookQueue, let_in: PullRequest, people: People
) -> None:
    people.delete_captains()
    webhooks.deliver(webhooks.take())
    harness.reconciler.run_pass()

    assert harness.merge("acme/web", let_in.number).status_code == 405
    [rule] = rules_of_pull(harness)
    [condition] = rule["conditions"]
    assert condition["outcome"] == "missed"
    assert condition["found"].startswith("It is not known: GitHub does not say who is in @acme/captains (")
    assert not harness.reconciler.run_pass()


def test_head_is_blocked_in_a_pass_a_minute_later_if_the_webhook_is_lost(
    harness: Harness, webhooks: WebhookQueue, let_in: PullRequest, people: People
) -> None:
    people.delete_captains()
    webhooks.take()
    pass_by(harness, seconds=61)
    notify(harness)
    harness.reconciler.run_pass()

    assert harness.merge("acme/web", let_in.number).status_code == 405


def test_team_that_is_made_again_under_the_name_lets_nothing_in(
    harness: Harness, webhooks: WebhookQueue, let_in: PullRequest, people: People
) -> None:
    people.delete_captains()
    people.set_captains("captain")
    webhooks.run()

    assert harness.merge("acme/web", let_in.number).status_code == 405


def test_rule_that_names_no_team_lets_in_what_meets_it(
    harness: Harness, webhooks: WebhookQueue, let_in: PullRequest, people: People, add_rule: AddRule
) -> None:
    people.delete_captains()
    add_rule({"label": {"name": "docs", "setBy": {"accounts": ["deputy"]}}})
    people.label(let_in, "deputy", "docs")
    webhooks.run()

    assert harness.merge("acme/web", let_in.number).status_code == 200
