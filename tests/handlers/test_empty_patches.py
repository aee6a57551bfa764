"""A `PATCH` without changes: 200, nothing changes, and no audit entry."""

import pytest

from schemas.contract import load_contract
from tests import factories
from tests.handlers.callers import Tenant, answered

PATHS = {
    "update_current_organization": "/v1/orgs/current",
    "update_my_notifications": "/v1/me/notifications",
    "update_member": "/v1/members/{userId}",
    "update_repository": "/v1/repos/{repoId}",
    "update_branch": "/v1/branches/{branchId}",
    "update_schedule": "/v1/schedules/{scheduleId}",
    "update_exception_rule": "/v1/exception-rules/{ruleId}",
    "update_slack_subscription": "/v1/slack/subscriptions/{slackSubscriptionId}",
    "update_webhook": "/v1/webhooks/{webhookId}",
}
WITHOUT_GET = ("update_member", "update_slack_subscription")
WITH_SETTINGS = ("update_current_organization", "update_repository", "update_branch")
EMPTY: list[dict[str, object]] = [{}, {"settings": {}}]
CASES = [(operation, body) for operation in PATHS for body in EMPTY[: 2 if operation in WITH_SETTINGS else 1]]


@pytest.fixture
def ids(acme: Tenant) -> dict[str, str]:
    """Return the id of one object for each path."""
    branch = factories.branch(acme.session, acme.repository("web"))
    grace = factories.member(acme.session, acme.organization, "member")
    return {
        "userId": grace.id,
        "repoId": branch.repository_id,
        "branchId": branch.id,
        "scheduleId": factories.schedule(acme.session, acme.organization).id,
        "ruleId": factories.exception_rule(acme.session, acme.organization).id,
        "slackSubscriptionId": factories.slack_subscription(acme.session, acme.organization).id,
        "webhookId": factories.webhook(acme.session, acme.organization).id,
    }


def test_every_patch_operation_is_tested() -> None:
    assert {one.id for one in load_contract().operations.values() if one.method == "PATCH"} == set(PATHS)


def test_empty_patch_changes_and_audits_nothing(acme: Tenant, ids: dict[str, str]) -> None:
    for operation, body in CASES:
        owner, path = acme.person("owner"), PATHS[operation].format(**ids)
        before = None if operation in WITHOUT_GET else owner.get(path).json()
        assert before in (None, answered(owner.patch(path, body)))
        assert acme.audit() == []
