"""A revoked exception: it says that GitHub refuses its pull request from the moment that GitHub does."""

from datetime import datetime
from typing import Any

from rules.access.permissions import Actor
from services.core.unit_of_work import Caller
from services.pull_request_exceptions import views
from services.pull_request_exceptions.decisions import revoke
from tests.factories.plans import BUSINESS
from tests.harness.github_harness import ADA, Harness
from tests.jobs.pull_request_exceptions.grants import check, grant, now
from tools.fake_github.model.records import PullRequest

KEY = Actor("api_key", "key_ci", "CI")


def shown(harness: Harness, exception_id: str) -> dict[str, Any]:
    with harness.uow_factory.open(Caller(harness.organization.id, ADA, "dashboard", BUSINESS)) as uow:
        return views.show(uow, exception_id)


def test_revoked_exception_is_blocked_once_github_shows_the_failure(
    harness: Harness, freeze: str, first: PullRequest
) -> None:
    harness.read_rules()
    exception_id = grant(harness, freeze, first.number)
    harness.run_until_idle()
    with harness.uow_factory.open(Caller(harness.organization.id, KEY, "api", BUSINESS)) as uow:
        revoke(uow, exception_id, None)
    assert check(harness, first)["conclusion"] == "success"
    waiting = shown(harness, exception_id)
    assert (waiting["blocking"]["state"], waiting["blocked_since"]) == ("not_blocked", None)
    revoked_at: datetime = waiting["revoked_at"]
    harness.run_until_idle()
    assert harness.merge("acme/web", first.number).status_code == 405
    blocked = shown(harness, exception_id)
    assert blocked["blocking"]["state"] in {"blocked", "partly"}
    assert revoked_at <= blocked["blocked_since"] <= now(harness)
