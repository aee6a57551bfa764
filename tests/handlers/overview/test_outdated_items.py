"""Items, and counts, say what can still be done, and go with what they are about."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.factories.plans import change_plan
from tests.handlers.callers import Caller, Tenant
from tests.handlers.overview.requests import items, only, shown


@pytest.fixture
def request_id(acme: Tenant, web: WatchedBranch, pull: PullRequest) -> str:
    """Return a request that waits, for a pull request into a branch that is blocked."""
    factories.branch_enforcement(acme.session, web)
    freeze = factories.freeze(acme.session, acme.organization, [web])
    return factories.exception(acme.session, freeze, pull, web, decision=None).id


def counted(caller: Caller) -> dict[str, int]:
    counts: dict[str, int] = shown(caller, "/v1/overview")["exceptions"]
    return counts


def test_undecidable_request_item_advises_revocation(acme: Tenant, viewer: Caller, request_id: str) -> None:
    change_plan(acme.session, acme.organization, "free")
    acme.session.flush()
    item = only(viewer)
    assert "withdraw the request" in item["message"]
    assert item["subject"]["id"] == request_id
    assert acme.person("admin").post(f"/v1/exceptions/{request_id}/revoke").status_code == 200
    assert items(viewer) == []


def test_pending_request_item_closes_with_its_repository(
    session: Session, web: WatchedBranch, viewer: Caller, request_id: str
) -> None:
    assert only(viewer)["subject"]["id"] == request_id
    assert counted(viewer) == {"pending": 1, "granted": 0}
    session.get_one(Repository, web.repository_id).removed_at = factories.now()
    session.flush()
    assert [item["type"] for item in items(viewer)] == ["freeze_gap"]
    assert counted(viewer) == {"pending": 0, "granted": 0}


def test_failed_targets_of_an_expired_freeze_are_only_a_warning(acme: Tenant, web: WatchedBranch, later: Any) -> None:
    factories.branch_enforcement(acme.session, web)
    ends_at = factories.now() + timedelta(minutes=30)
    freeze = factories.freeze(acme.session, acme.organization, ends_at=ends_at)
    factories.target(acme.session, freeze, web, state="failed", last_error_message="GitHub said no.")
    assert only(acme.key())["severity"] == "critical"
    later(hours=1)
    item = only(acme.key())
    assert item["severity"] == "warning"
    assert "which has ended" in item["message"]
    assert item["since"].startswith(f"{ends_at:%Y-%m-%dT%H:%M:%S}")
