"""A schedule that was deleted is not found any more; one of an uninstalled App is."""

import pytest

from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.schedules.requests import created

OF_ONE = (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/skip-next"))


@pytest.mark.parametrize(("method", "rest"), OF_ONE)
def test_deleted_schedule_is_not_found(acme: Tenant, method: str, rest: str) -> None:
    gone = factories.schedule(acme.session, acme.organization, deleted_at=factories.now())
    body = {"name": "Late"} if method == "PATCH" else None
    refusal(acme.key().send(method, f"/v1/schedules/{gone.id}{rest}", json=body), 404, "schedule_not_found")


@pytest.mark.parametrize(("method", "rest"), OF_ONE)
def test_schedule_can_be_changed_after_an_uninstallation(acme: Tenant, method: str, rest: str) -> None:
    made = created(acme.key())["id"]
    acme.installation.state = "removed"
    acme.session.flush()
    body = {"name": "Late"} if method == "PATCH" else None
    assert acme.key().send(method, f"/v1/schedules/{made}{rest}", json=body).is_success
