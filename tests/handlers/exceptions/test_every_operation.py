"""What holds for each operation of the tag Exceptions: who may call it, and when it is gone."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from sqlalchemy.orm import Session

from models.exceptions import PullRequestException
from models.repositories import Repository
from rules.ids import new_id
from schemas.contract import load_contract
from tests import factories
from tests.factories.plans import change_plan
from tests.handlers.access_checks import takes_credentials
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.exceptions.requests import THIS, UNKNOWN, decide, settle

CALLS: dict[str, Callable[[Caller, str], httpx.Response]] = {
    "list_exceptions": lambda caller, _id: caller.get("/v1/exceptions"),
    "create_exception": lambda caller, _id: caller.post("/v1/exceptions", THIS),
    "get_exception": lambda caller, exception_id: caller.get(f"/v1/exceptions/{exception_id}"),
    "revoke_exception": lambda caller, exception_id: caller.post(f"/v1/exceptions/{exception_id}/revoke"),
    "list_exception_requests": lambda caller, _id: caller.get("/v1/exception-requests"),
    "create_exception_request": lambda caller, _id: caller.post("/v1/exception-requests", THIS),
    "decide_exception_request": decide,
}
DECIDING = ("create_exception", "decide_exception_request", "revoke_exception")
WRITES = ("create_exception", "revoke_exception", "create_exception_request", "decide_exception_request")
each_write = pytest.mark.parametrize("operation", WRITES)


class TestEveryOperation:
    def test_every_operation_of_the_tag_is_called_here(self) -> None:
        operations = load_contract().operations.values()
        assert set(CALLS) == {operation.id for operation in operations if operation.tag == "Exceptions"}

    @pytest.mark.parametrize("operation", CALLS)
    def test_operation_requires_a_scope_or_role_and_decisions_an_admin(
        self, acme: Tenant, pending: PullRequestException, operation: str
    ) -> None:
        writes = operation in WRITES
        takes_credentials(
            acme,
            lambda caller: CALLS[operation](caller, pending.id),
            scope="exception:write" if writes else "exception:read",
            least_role="admin" if operation in DECIDING else "viewer",
            writes=writes,
        )

    @pytest.mark.parametrize("operation", DECIDING)
    def test_decision_is_open_to_members_when_the_organization_allows_it(
        self, acme: Tenant, session: Session, pending: PullRequestException, operation: str
    ) -> None:
        settle(session, acme, approval="member")
        refusal(CALLS[operation](acme.person("viewer"), pending.id), 403, "insufficient_permission")
        assert CALLS[operation](acme.person("member"), pending.id).status_code in {200, 201}

    @pytest.mark.parametrize("operation", CALLS)
    def test_operation_is_forbidden_without_an_organization(
        self, acme: Tenant, session: Session, operation: str
    ) -> None:
        token = factories.session_token(session, factories.user(session), None)
        refusal(CALLS[operation](Caller(acme.http, token), UNKNOWN), 403, "organization_not_provisioned")

    @pytest.mark.parametrize("operation", CALLS)
    def test_operation_is_rejected_until_an_organization_is_selected(
        self, acme: Tenant, session: Session, operation: str
    ) -> None:
        member = factories.user(session)
        factories.membership(session, acme.organization, member, "admin")
        token = factories.session_token(session, member, None)
        refusal(CALLS[operation](Caller(acme.http, token), UNKNOWN), 403, "no_organization_selected")

    @pytest.mark.parametrize("operation", CALLS)
    def test_operation_is_gone_with_its_organization(self, acme: Tenant, session: Session, operation: str) -> None:
        key = acme.key()
        acme.organization.deleted_at = factories.now()
        session.flush()
        refusal(CALLS[operation](key, UNKNOWN), 410, "organization_deleted")

    @pytest.mark.parametrize("operation", CALLS)
    def test_operation_works_without_an_installation(
        self, acme: Tenant, session: Session, pending: PullRequestException, operation: str
    ) -> None:
        acme.installation.state = "removed"
        if operation == "create_exception_request":
            session.delete(pending)
        session.flush()
        assert CALLS[operation](acme.key(), pending.id).status_code in {200, 201}

    @pytest.mark.parametrize("operation", WRITES)
    def test_operation_requires_the_plan_except_revoking(
        self, acme: Tenant, session: Session, pending: PullRequestException, operation: str
    ) -> None:
        change_plan(acme.session, acme.organization, "free")
        session.flush()
        answer = CALLS[operation](acme.key(), pending.id)
        if operation == "revoke_exception":
            assert answer.status_code == 200
        else:
            assert "pr_exceptions" in refusal(answer, 403, "feature_not_available")["message"]

    @each_write
    def test_write_rejects_a_reused_idempotency_key(
        self, acme: Tenant, pending: PullRequestException, operation: str
    ) -> None:
        key = acme.key()
        keyed = {"headers": {"Idempotency-Key": "once"}}
        key.post("/v1/exceptions", {**THIS, "reason": "Another reason"}, **keyed)

        class Keyed(Caller):
            def send(self, method: str, path: str, **request: Any) -> httpx.Response:
                return super().send(method, path, **{**request, **keyed})

        refusal(CALLS[operation](Keyed(key.http, key.token), pending.id), 409, "idempotency_key_reuse")

    @pytest.mark.parametrize("operation", ["get_exception", "revoke_exception", "decide_exception_request"])
    def test_operation_on_an_unknown_exception_is_not_found(
        self, acme: Tenant, globex: Tenant, session: Session, operation: str
    ) -> None:
        elsewhere = factories.watched(session, globex.organization, "globex/web")
        theirs = factories.exception(
            session,
            factories.freeze(session, globex.organization, [elsewhere]),
            factories.pull_request(session, session.get_one(Repository, elsewhere.repository_id)),
            elsewhere,
        )
        for exception_id in (UNKNOWN, theirs.id, "nonsense", new_id("frz")):
            refusal(CALLS[operation](acme.key(), exception_id), 404, "exception_not_found")
