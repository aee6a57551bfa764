"""The check's own button: a request by the person who pressed it at GitHub, once, and for all it would take."""

from typing import Any

import pytest
import requests
from sqlalchemy import select

from models.organizations import Organization
from tests import factories
from tests.harness.github_harness import Harness
from tests.harness.webhook_queue import WebhookQueue
from tests.jobs.pull_request_exceptions.grants import check, grant
from tools.fake_github.model.records import PullRequest

CHECK = "change-freeze/main"


@pytest.fixture
def webhook_queue(harness: Harness, freeze: str) -> WebhookQueue:
    return WebhookQueue(harness)


def press(harness: Harness, number: int = 1, login: str = "octocat", identifier: str = "request_exception") -> int:
    body = {"repository": "acme/web", "number": number, "name": CHECK, "identifier": identifier, "login": login}
    return requests.post(f"{harness.base_url}/_control/buttons", json=body, timeout=10).status_code


def requested(harness: Harness) -> list[Any]:
    query = (
        "SELECT p.number, e.freeze_id, e.requested_by, e.decision, e.pin_to_head FROM exceptions e "
        "JOIN pull_requests p ON p.id = e.pull_request_id ORDER BY p.number, e.freeze_id"
    )
    return [tuple(found) for found in harness.sql(query)]


def account(harness: Harness, login: str = "octocat") -> dict[str, str]:
    """Return the actor of an account at GitHub that is no member's."""
    number = harness.fake_github.world.add_account(login, "User").id
    return {"type": "code_host", "id": str(number), "name": login}


def link(harness: Harness, login: str) -> str:
    """Make an account at GitHub a new member's own; returns the member's id."""
    organization = harness.session.scalars(select(Organization)).one()
    person = factories.member(harness.session, organization, "viewer", "Ada")
    factories.github_link(harness.session, organization, person, account_id=int(account(harness, login)["id"]))
    harness.session.commit()
    return person.id


def restrict(harness: Harness, login: str, role: str | None) -> None:
    """Give a person one role in the repository at GitHub, and nothing else; None: not even that."""
    rights = {} if role is None else {"acme/web": role}
    body = {"login": login, "rights": rights}
    assert requests.put(f"{harness.base_url}/_control/persons", json=body, timeout=10).status_code == 204


def test_check_action_files_a_request_as_its_sender(harness: Harness, freeze: str, webhook_queue: WebhookQueue) -> None:
    assert press(harness) == 204
    webhook_queue.run()
    octocat = account(harness)
    assert requested(harness) == [(1, freeze, octocat, None, False)]
    [(actor, source, name)] = harness.sql(
        "SELECT actor, source, target ->> 'name' FROM audit_entries WHERE action = 'exception.requested'"
    )
    assert (actor, source, name) == (octocat, "code_host", "acme/web#1")


@pytest.mark.parametrize(("role", "counts"), [(None, False), ("read", False), ("triage", False), ("write", True)])
def test_check_action_is_for_writers_of_the_repository(
    harness: Harness, freeze: str, webhook_queue: WebhookQueue, role: str | None, counts: bool
) -> None:
    restrict(harness, "mallory", role)
    press(harness, login="mallory")
    webhook_queue.run()
    assert [found[2]["name"] for found in requested(harness)] == (["mallory"] if counts else [])
    assert harness.sql("SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL") == [(0,)]


def test_check_action_of_a_login_that_changed_hands_is_ignored(
    harness: Harness, freeze: str, webhook_queue: WebhookQueue
) -> None:
    press(harness, login="octocat")
    pressed = webhook_queue.take()
    world = harness.fake_github.world
    world.logins["octocat"] = world.add_account("hubot", "User")
    webhook_queue.deliver(pressed)
    assert requested(harness) == []


def test_check_action_counts_as_the_linked_member(harness: Harness, freeze: str, webhook_queue: WebhookQueue) -> None:
    user_id = link(harness, "ada")
    restrict(harness, "ada", None)
    press(harness, login="ada")
    webhook_queue.run()
    assert [found[2] for found in requested(harness)] == [{"type": "user", "id": user_id, "name": "Ada"}]


def test_request_alone_allows_nothing(harness: Harness, freeze: str, webhook_queue: WebhookQueue) -> None:
    press(harness)
    webhook_queue.run()
    harness.run_until_idle()
    assert len(requested(harness)) == 1
    assert harness.merge("acme/web", 1).status_code == 405


def test_check_action_files_one_request_per_covering_freeze(
    harness: Harness, freeze: str, webhook_queue: WebhookQueue
) -> None:
    other = harness.freeze()
    harness.run_until_idle()
    press(harness)
    webhook_queue.run()
    assert {found[1] for found in requested(harness)} == {freeze, other}


def test_check_action_files_one_request_per_pull_request_on_the_head(
    harness: Harness, freeze: str, webhook_queue: WebhookQueue
) -> None:
    harness.fake_github.organization("acme").repository("web").pull_request(sharesHeadWith=1)
    harness.make_due()
    harness.run_until_idle()
    press(harness)
    webhook_queue.run()
    assert [found[0] for found in requested(harness)] == [1, 3]


def test_repeated_check_action_changes_nothing(harness: Harness, freeze: str, webhook_queue: WebhookQueue) -> None:
    press(harness)
    press(harness, login="hubot")
    deliveries = webhook_queue.take()
    for _ in range(2):
        webhook_queue.deliver(deliveries)
        harness.sql("UPDATE webhook_deliveries SET processed_at = NULL, due_at = received_at")
        harness.process_webhooks()
    assert [found[2]["name"] for found in requested(harness)] in (["octocat"], ["hubot"])
    assert harness.sql("SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL") == [(0,)]


def test_check_action_is_ignored_after_a_push(harness: Harness, freeze: str, webhook_queue: WebhookQueue) -> None:
    press(harness)
    pressed = webhook_queue.take()
    pull = harness.record().pulls[1]
    harness.sql("UPDATE pull_requests SET head_sha = :sha WHERE number = 1", sha="f" * 40)
    webhook_queue.deliver(pressed)
    assert pull.head_sha != "f" * 40
    assert requested(harness) == []


def test_check_action_is_ignored_after_the_freeze(harness: Harness, freeze: str, webhook_queue: WebhookQueue) -> None:
    press(harness)
    harness.lift(freeze)
    webhook_queue.run()
    assert requested(harness) == []


def test_check_action_is_ignored_after_the_grant(harness: Harness, freeze: str, webhook_queue: WebhookQueue) -> None:
    press(harness)
    grant(harness, freeze, 1)
    webhook_queue.run()
    assert [found[3] for found in requested(harness)] == ["granted"]


def test_check_action_is_ignored_without_the_plan(harness: Harness, freeze: str, webhook_queue: WebhookQueue) -> None:
    press(harness)
    harness.sql("DELETE FROM plan_grants")
    webhook_queue.run()
    assert requested(harness) == []


@pytest.mark.parametrize("allowed", ["UPDATE freezes", "UPDATE watched_branches"])
def test_check_action_is_ignored_when_exceptions_were_turned_off(
    harness: Harness, freeze: str, webhook_queue: WebhookQueue, allowed: str
) -> None:
    press(harness)
    harness.sql(f"{allowed} SET exceptions_allowed = false")
    webhook_queue.run()
    assert requested(harness) == []


def test_unknown_check_action_is_ignored(harness: Harness, freeze: str, webhook_queue: WebhookQueue) -> None:
    assert press(harness, identifier="merge_anyway") == 422
    harness.lift(freeze)
    harness.run_until_idle()
    pull: PullRequest = harness.record().pulls[1]
    assert check(harness, pull)["conclusion"] == "success"
    assert press(harness) == 422
