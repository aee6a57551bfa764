"""Who decides about exceptions, and with which plan."""

from collections.abc import Callable

import httpx
import pytest

from models.exceptions import PullRequestException
from tests.factories.plans import change_plan
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.exceptions.requests import THIS, decide, settle


def revoke(caller: Caller, exception_id: str) -> httpx.Response:
    return caller.post(f"/v1/exceptions/{exception_id}/revoke")


@pytest.mark.parametrize("call", [lambda caller, _id: caller.post("/v1/exceptions", THIS), decide, revoke])
def test_decision_is_open_to_members_when_the_organization_allows_it(
    acme: Tenant, pending: PullRequestException, call: Callable[[Caller, str], httpx.Response]
) -> None:
    settle(acme.session, acme, approval="member")
    refusal(call(acme.person("viewer"), pending.id), 403, "insufficient_permission")
    assert call(acme.person("member"), pending.id).status_code in {200, 201}


def test_exception_is_revoked_without_the_plan(acme: Tenant, pending: PullRequestException) -> None:
    change_plan(acme.session, acme.organization, "free")
    acme.session.flush()
    assert revoke(acme.key(), pending.id).status_code == 200
