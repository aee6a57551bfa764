"""A device that requests tokens for the MCP server becomes a connected client."""

from typing import Any

import httpx
import pytest
from sqlalchemy import select

from models.oauth import OAuthGrant
from models.organizations import LoginSession, User
from tests import factories
from tests.handlers.callers import Caller, Tenant, answered, refusal
from tests.handlers.device_sign_in.requests import APPROVE, GRANT, oauth_error
from tests.handlers.oauth.requests import RESOURCE, entry, tool

NAME = "mcp-remote"


@pytest.fixture
def begun(http: httpx.Client, redis: Any, database: str) -> dict[str, Any]:
    """Return the codes of a device that requests two scopes."""
    form = {"client_id": NAME, "scope": "freeze:write offline_access", "resource": RESOURCE}
    return answered(http.post("/api/auth/device/code", data=form))


def poll(http: httpx.Client, begun: dict[str, Any], path: str = "/oauth/token") -> httpx.Response:
    given = {"grant_type": GRANT, "device_code": begun["device_code"], "client_id": NAME}
    return http.post(path, data=given)


def approve(person: Caller, begun: dict[str, Any], **more: Any) -> httpx.Response:
    return person.post(APPROVE, {"userCode": begun["user_code"], "decision": "approve", **more})


class TestDevice:
    def test_device_with_a_resource_becomes_a_connected_client(
        self, http: httpx.Client, person: Caller, ada: User, acme: Tenant, begun: dict[str, Any]
    ) -> None:
        assert oauth_error(poll(http, begun)) == "authorization_pending"
        waiting = person.post("/api/auth/device/lookup", {"userCode": begun["user_code"]}).json()
        assert waiting["scopes"] == ["freeze:read", "freeze:write"]
        assert approve(person, begun).status_code == 200
        tokens = poll(http, begun).json()
        assert tokens["scope"] == "freeze:read freeze:write"
        assert tool(http, tokens["access_token"], "svc_list_freezes").code is None
        refusal(Caller(http, tokens["access_token"]).get("/v1/freezes"), 401, "invalid_token")
        grant = acme.session.scalars(select(OAuthGrant)).one()
        assert (grant.user_id, grant.organization_id, grant.client_name) == (ada.id, acme.id, f"{NAME} (not verified)")
        assert acme.session.scalars(select(LoginSession).where(LoginSession.kind == "device")).all() == []
        renewed = http.post(
            "/oauth/token",
            data={"grant_type": "refresh_token", "client_id": NAME, "refresh_token": tokens["refresh_token"]},
        )
        assert entry(http, renewed.json()["access_token"]).status_code == 200
        assert oauth_error(poll(http, begun)) == "invalid_grant"

    def test_person_decides_on_the_scopes_of_a_device(
        self, http: httpx.Client, person: Caller, begun: dict[str, Any]
    ) -> None:
        for scopes in ([], ["repo:write"]):
            refusal(approve(person, begun, scopes=scopes), 422, "validation_failed")
        assert approve(person, begun, scopes=["freeze:read", "repo:write"]).status_code == 200
        assert poll(http, begun).json()["scope"] == "freeze:read"

    def test_device_with_a_resource_gets_no_session_at_the_old_endpoint(
        self, http: httpx.Client, person: Caller, begun: dict[str, Any]
    ) -> None:
        approve(person, begun)
        assert oauth_error(poll(http, begun, "/api/auth/device/token")) == "invalid_grant"
        assert "refresh_token" in poll(http, begun).json()

    def test_device_without_a_resource_signs_in_at_either_endpoint(
        self, http: httpx.Client, person: Caller, acme: Tenant
    ) -> None:
        for path in ("/oauth/token", "/api/auth/device/token"):
            begun = http.post("/api/auth/device/code", data={"client_id": NAME}).json()
            waiting = person.post("/api/auth/device/lookup", {"userCode": begun["user_code"]}).json()
            assert waiting["scopes"] is None
            approve(person, begun)
            tokens = poll(http, begun, path).json()
            assert tokens["session_token"].startswith("svc_session_")
            assert Caller(http, tokens["access_token"]).get("/v1/freezes").status_code == 200

    @pytest.mark.parametrize(
        ("form", "error"),
        [
            ({"scope": "freeze:read"}, "invalid_scope"),
            ({"scope": "unknown", "resource": RESOURCE}, "invalid_scope"),
            ({"scope": "freeze:read", "resource": factories.AUDIENCE}, "invalid_scope"),
            ({"resource": "https://evil.example/mcp"}, "invalid_target"),
        ],
    )
    def test_device_request_is_refused_when_scope_or_resource_are_wrong(
        self, http: httpx.Client, redis: Any, database: str, form: dict[str, str], error: str
    ) -> None:
        assert oauth_error(http.post("/api/auth/device/code", data={"client_id": NAME, **form})) == error
