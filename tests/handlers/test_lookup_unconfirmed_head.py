"""`GET /v1/pulls/lookup` on a head whose check at GitHub is not known for sure."""

from typing import Any

import pytest

from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.callers import Tenant


@pytest.fixture
def web(acme: Tenant, repository: Repository) -> WatchedBranch:
    branch = factories.branch(acme.session, repository)
    factories.freeze(acme.session, acme.organization, [branch])
    return branch


def look_up(acme: Tenant) -> dict[str, Any]:
    answer = acme.key("freeze:read").get("/v1/pulls/lookup", ref="acme/web#7")
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    assert shown["verdict"] == "blocked"
    return shown


def blocking(acme: Tenant) -> str:
    return str(look_up(acme)["blocking"]["state"])


def check(acme: Tenant) -> dict[str, Any]:
    shown = look_up(acme)
    return {name: shown["check"][name] for name in ("state", "conclusion", "writtenAt")}


def test_unconfirmed_success_is_not_shown_as_a_written_failure(
    acme: Tenant, web: WatchedBranch, pull: PullRequest
) -> None:
    factories.head_check(acme.session, web, pull.head_sha, "failure", evaluation=0, unconfirmed=True)
    assert check(acme) == {"state": "pending", "conclusion": None, "writtenAt": None}


def test_head_is_not_blocked_while_its_failure_is_unconfirmed(
    acme: Tenant, web: WatchedBranch, pull: PullRequest
) -> None:
    factories.branch_enforcement(acme.session, web)
    row = factories.head_check(acme.session, web, pull.head_sha, "failure", unconfirmed=True)
    assert blocking(acme) == "not_blocked"
    row.unconfirmed = False
    acme.session.flush()
    assert blocking(acme) == "blocked"


def test_recorded_failure_is_pending_while_unconfirmed(acme: Tenant, web: WatchedBranch, pull: PullRequest) -> None:
    row = factories.head_check(acme.session, web, pull.head_sha, "failure", unconfirmed=True)
    assert check(acme)["state"] == "pending"
    row.unconfirmed = False
    acme.session.flush()
    assert check(acme)["state"] == "written"
