"""What holds for each operation of the tag Freezes: who may call it, and when it is gone."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from sqlalchemy.orm import Session

from models.freezes import Freeze
from rules.ids import new_id
from schemas.contract import load_contract
from tests import factories
from tests.handlers.access_checks import takes_credentials
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.freezes.requests import EVERYTHING, FIRST, REASON, UNKNOWN

CALLS: dict[str, Callable[[Caller, str], httpx.Response]] = {
    "preview_scope": lambda caller, _id: caller.post("/v1/scope/preview", {"scope": EVERYTHING}),
    "list_freezes": lambda caller, _id: caller.get("/v1/freezes"),
    "create_freeze": lambda caller, _id: caller.post("/v1/freezes", FIRST),
    "lift_freezes": lambda caller, _id: caller.post("/v1/freezes/lift", {"scope": EVERYTHING}),
    "get_freeze": lambda caller, freeze_id: caller.get(f"/v1/freezes/{freeze_id}"),
    "preview_lift": lambda caller, freeze_id: caller.get(f"/v1/freezes/{freeze_id}/lift-preview"),
    "list_freeze_targets": lambda caller, freeze_id: caller.get(f"/v1/freezes/{freeze_id}/targets"),
    "lift_freeze": lambda caller, freeze_id: caller.post(f"/v1/freezes/{freeze_id}/lift"),
    "extend_freeze": lambda caller, freeze_id: caller.post(f"/v1/freezes/{freeze_id}/extend", {"endsAt": None}),
    "thaw_override_freeze": lambda caller, freeze_id: caller.post(
        f"/v1/freezes/{freeze_id}/thaw-override", {"reason": REASON}
    ),
    "retry_freeze": lambda caller, freeze_id: caller.post(f"/v1/freezes/{freeze_id}/retry"),
    "get_freeze_state": lambda caller, _id: caller.get("/v1/freeze-state", organization="current"),
}
WRITES = ("create_freeze", "lift_freezes", "lift_freeze", "extend_freeze", "thaw_override_freeze", "retry_freeze")
every_operation = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
every_write = pytest.mark.parametrize("call", [CALLS[name] for name in WRITES], ids=WRITES)


class TestEveryOperation:
    def test_every_operation_of_the_tag_is_called_here(self) -> None:
        operations = load_contract().operations.values()
        assert set(CALLS) == {operation.id for operation in operations if operation.tag == "Freezes"}

    @pytest.mark.parametrize("operation", CALLS)
    def test_operation_requires_its_scope_or_role(self, acme: Tenant, freeze: Freeze, operation: str) -> None:
        writes = operation in WRITES
        takes_credentials(
            acme,
            lambda caller: CALLS[operation](caller, freeze.id),
            scope="freeze:write" if writes else "freeze:read",
            least_role="member" if writes else "viewer",
            writes=writes,
        )

    @every_operation
    def test_operation_is_forbidden_without_an_organization(
        self, acme: Tenant, session: Session, call: Callable[[Caller, str], httpx.Response]
    ) -> None:
        token = factories.session_token(session, factories.user(session), None)
        refusal(call(Caller(acme.http, token), UNKNOWN), 403, "organization_not_provisioned")

    @every_operation
    def test_operation_is_rejected_until_an_organization_is_selected(
        self, acme: Tenant, session: Session, call: Callable[[Caller, str], httpx.Response]
    ) -> None:
        member = factories.user(session)
        factories.membership(session, acme.organization, member)
        token = factories.session_token(session, member, None)
        refusal(call(Caller(acme.http, token), UNKNOWN), 403, "no_organization_selected")

    @every_operation
    def test_operation_is_gone_with_its_organization(
        self, acme: Tenant, session: Session, call: Callable[[Caller, str], httpx.Response]
    ) -> None:
        key = acme.key()
        acme.organization.deleted_at = factories.now()
        session.flush()
        refusal(call(key, UNKNOWN), 410, "organization_deleted")

    @pytest.mark.parametrize("operation", ["create_freeze", "retry_freeze"])
    def test_operation_that_needs_github_is_gone_with_the_installation(
        self, acme: Tenant, session: Session, freeze: Freeze, operation: str
    ) -> None:
        acme.installation.state = "removed"
        session.flush()
        refusal(CALLS[operation](acme.key(), freeze.id), 410, "installation_removed")

    @pytest.mark.parametrize("operation", ["create_freeze", "retry_freeze"])
    def test_operation_that_needs_github_says_how_to_unsuspend_the_app(
        self, acme: Tenant, session: Session, freeze: Freeze, operation: str
    ) -> None:
        factories.installation(session, acme.organization, "former", state="removed")
        acme.installation.state = "suspended"
        session.flush()
        error = refusal(CALLS[operation](acme.key(), freeze.id), 409, "installation_suspended")
        assert f"suspended in {acme.installation.account}" in error["message"]
        assert f"/settings/installations/{acme.installation.id}" in error["message"]
        assert "install-url" not in error["message"]

    def test_freeze_before_the_first_installation_says_how_to_install(self, acme: Tenant, session: Session) -> None:
        session.delete(acme.installation)
        session.flush()
        error = refusal(CALLS["create_freeze"](acme.key(), ""), 409, "invalid_state")
        assert "GET /v1/github/install-url" in error["message"]

    @pytest.mark.parametrize("operation", sorted(set(CALLS) - {"create_freeze", "retry_freeze"}))
    def test_operation_that_needs_no_github_works_without_an_installation(
        self, acme: Tenant, session: Session, freeze: Freeze, operation: str
    ) -> None:
        acme.installation.state = "removed"
        freeze.source = "schedule"  # so that it can be overridden
        session.flush()
        assert CALLS[operation](acme.key(), freeze.id).status_code == 200

    @every_write
    def test_write_rejects_a_reused_idempotency_key(
        self, acme: Tenant, freeze: Freeze, call: Callable[[Caller, str], httpx.Response]
    ) -> None:
        key = acme.key()
        keyed = {"headers": {"Idempotency-Key": "once"}}
        assert key.post("/v1/freezes/lift", {"scope": EVERYTHING, "reason": "over"}, **keyed).status_code == 200

        class Keyed(Caller):
            def send(self, method: str, path: str, **request: Any) -> httpx.Response:
                return super().send(method, path, **{**request, **keyed})

        refusal(call(Keyed(key.http, key.token), freeze.id), 409, "idempotency_key_reuse")

    @pytest.mark.parametrize(
        "operation",
        [
            "get_freeze",
            "preview_lift",
            "list_freeze_targets",
            "lift_freeze",
            "extend_freeze",
            "thaw_override_freeze",
            "retry_freeze",
        ],
    )
    def test_operation_on_an_unknown_freeze_is_not_found(
        self, acme: Tenant, globex: Tenant, session: Session, operation: str
    ) -> None:
        foreign = factories.freeze(session, globex.organization)
        for freeze_id in (UNKNOWN, foreign.id, "nonsense", new_id("rep")):
            refusal(CALLS[operation](acme.key(), freeze_id), 404, "freeze_not_found")
