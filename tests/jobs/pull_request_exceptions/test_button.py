"""The check's own button: a request by the person who pressed it at the code host, once, and for all it would take."""

from typing import Any

import pytest
import requests

from tests.harness.webhook_queue import Post
from tests.jobs.conftest import Builder, Town
from tests.jobs.pull_request_exceptions.granting import check, grant
from tools.fake_github.model.records import PullRequest

CHECK = "change-freeze/main"


@pytest.fixture
def post(town: Town) -> Post:
    return Post(town)


@pytest.fixture
def freeze(town: Town, build: Builder, post: Post) -> str:
    build("web")
    town.settle()
    made = town.freeze()
    town.settle()
    post.take()
    return made


def press(town: Town, number: int = 1, login: str = "octocat", identifier: str = "request_exception") -> int:
    body = {"repository": "acme/web", "number": number, "name": CHECK, "identifier": identifier, "login": login}
    return requests.post(f"{town.base_url}/_control/buttons", json=body, timeout=10).status_code


def requested(town: Town) -> list[Any]:
    query = (
        "SELECT p.number, e.freeze_id, e.requested_by, e.decision, e.pin_to_head FROM exceptions e "
        "JOIN pull_requests p ON p.id = e.pull_request_id ORDER BY p.number, e.freeze_id"
    )
    return [tuple(found) for found in town.sql(query)]


OCTOCAT = {"type": "code_host", "id": "octocat", "name": "octocat"}


def test_check_action_files_a_request_as_its_sender(town: Town, freeze: str, post: Post) -> None:
    assert press(town) == 204
    post.run()
    assert requested(town) == [(1, freeze, OCTOCAT, None, False)]
    [(actor, source, name)] = town.sql(
        "SELECT actor, source, target ->> 'name' FROM audit_entries WHERE action = 'exception.requested'"
    )
    assert (actor, source, name) == (OCTOCAT, "code_host", "acme/web#1")


def test_request_alone_allows_nothing(town: Town, freeze: str, post: Post) -> None:
    press(town)
    post.run()
    town.settle()
    assert town.merge("acme/web", 1).status_code == 405


def test_check_action_files_one_request_per_covering_freeze(town: Town, freeze: str, post: Post) -> None:
    other = town.freeze()
    town.settle()
    press(town)
    post.run()
    assert {found[1] for found in requested(town)} == {freeze, other}


def test_check_action_files_one_request_per_pull_request_on_the_head(town: Town, freeze: str, post: Post) -> None:
    town.host.organization("acme").repository("web").pull_request(sharesHeadWith=1)
    town.make_due()
    town.settle()
    press(town)
    post.run()
    assert [found[0] for found in requested(town)] == [1, 3]


def test_repeated_check_action_changes_nothing(town: Town, freeze: str, post: Post) -> None:
    press(town)
    press(town, login="hubot")
    deliveries = post.take()
    for _ in range(2):
        post.hand_over(deliveries)
        town.sql("UPDATE webhook_deliveries SET processed_at = NULL, due_at = received_at")
        town.hear()
    assert [found[2]["id"] for found in requested(town)] in (["octocat"], ["hubot"])
    assert town.sql("SELECT count(*) FROM webhook_deliveries WHERE processed_at IS NULL") == [(0,)]


def test_check_action_is_ignored_after_a_push(town: Town, freeze: str, post: Post) -> None:
    press(town)
    pressed = post.take()
    pull = town.host.world.repository_named("acme/web").pulls[1]
    town.sql("UPDATE pull_requests SET head_sha = :sha WHERE number = 1", sha="f" * 40)
    post.hand_over(pressed)
    assert pull.head_sha != "f" * 40
    assert requested(town) == []


def test_check_action_is_ignored_after_the_freeze(town: Town, freeze: str, post: Post) -> None:
    press(town)
    town.lift(freeze)
    post.run()
    assert requested(town) == []


def test_check_action_is_ignored_after_the_grant(town: Town, freeze: str, post: Post) -> None:
    press(town)
    grant(town, freeze, 1)
    post.run()
    assert [found[3] for found in requested(town)] == ["granted"]


def test_check_action_is_ignored_without_the_plan(town: Town, freeze: str, post: Post) -> None:
    press(town)
    town.sql("UPDATE organizations SET plan = 'free'")
    post.run()
    assert requested(town) == []


@pytest.mark.parametrize("allowed", ["UPDATE freezes", "UPDATE watched_branches"])
def test_check_action_is_ignored_when_exceptions_were_turned_off(
    town: Town, freeze: str, post: Post, allowed: str
) -> None:
    press(town)
    town.sql(f"{allowed} SET exceptions_allowed = false")
    post.run()
    assert requested(town) == []


def test_unknown_check_action_is_ignored(town: Town, freeze: str, post: Post) -> None:
    assert press(town, identifier="merge_anyway") == 422
    town.lift(freeze)
    town.settle()
    pull: PullRequest = town.host.world.repository_named("acme/web").pulls[1]
    assert check(town, pull)["conclusion"] == "success"
    assert press(town) == 422
