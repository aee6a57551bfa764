"""What OAuth clients discover."""

import httpx
import pytest

from schemas.contract import load_contract
from tests.handlers.callers import Tenant
from tests.handlers.device_sign_in.requests import GRANT
from tests.harness.mcp_client import McpClient

WEB = "http://127.0.0.1:8080"


class TestAuthorizationServerMetadata:
    def test_authorization_server_metadata_names_endpoints_and_capabilities(
        self, http: httpx.Client, database: str
    ) -> None:
        response = http.get("/.well-known/oauth-authorization-server")
        assert response.headers["Cache-Control"] == "public, max-age=300"
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        shown = response.json()
        assert set(shown.pop("scopes_supported")) == {*load_contract().tool_scopes, "offline_access"}
        assert shown == {
            "issuer": WEB,
            "authorization_endpoint": f"{WEB}/oauth/authorize",
            "device_authorization_endpoint": f"{WEB}/api/auth/device/code",
            "token_endpoint": f"{WEB}/oauth/token",
            "revocation_endpoint": f"{WEB}/oauth/revoke",
            "jwks_uri": f"{WEB}/.well-known/jwks.json",
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token", GRANT],
            "token_endpoint_auth_methods_supported": ["none"],
            "revocation_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": True,
        }

    def test_endpoints_of_the_authorization_server_metadata_exist(self, http: httpx.Client, database: str) -> None:
        shown = http.get("/.well-known/oauth-authorization-server").json()
        named = [value for name, value in shown.items() if name.endswith(("_endpoint", "_uri"))]
        assert {http.get(httpx.URL(one).raw_path.decode()).status_code for one in named} <= {200, 400, 405}


class TestProtectedResourceMetadata:
    @pytest.mark.parametrize("path", ["", "/mcp"])
    def test_protected_resource_metadata_names_the_authorization_server(
        self, http: httpx.Client, database: str, path: str
    ) -> None:
        response = http.get(f"/.well-known/oauth-protected-resource{path}")
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert response.json() == {
            "resource": f"{WEB}/mcp",
            "authorization_servers": [WEB],
            "scopes_supported": list(load_contract().tool_scopes),
            "bearer_methods_supported": ["header"],
            "resource_name": "Change-Freeze Service",
        }

    def test_tool_scopes_are_scopes_of_api_keys_in_order(self) -> None:
        vocabulary = load_contract().document["components"]["securitySchemes"]["ApiKey"]["x-scopes"]
        scopes = list(load_contract().tool_scopes)
        assert scopes == sorted(scopes)
        assert {"freeze:read", "freeze:write"} <= set(scopes) <= set(vocabulary)


@pytest.mark.parametrize("path", ["oauth-protected-resource/mcp", "oauth-authorization-server"])
def test_metadata_never_name_the_host_of_a_request(http: httpx.Client, path: str) -> None:
    evil = {"Host": "evil.example", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "ftp"}
    answer = http.get(f"/.well-known/{path}", headers={**evil, "Forwarded": "host=evil.example;proto=ftp"})
    assert answer.json() == http.get(f"/.well-known/{path}").json()
    assert "evil.example" not in f"{answer.text}{answer.headers}"


def test_forwarded_host_does_not_open_the_mcp_server(acme: Tenant) -> None:
    forwarded = {"Host": "elsewhere.example", "X-Forwarded-Host": "127.0.0.1:8080", "Forwarded": "host=127.0.0.1:8080"}
    assert McpClient(acme.key()).send("tools/list", {}, **forwarded).status_code == 421
    elsewhere = {"X-Forwarded-Host": "elsewhere.example"}
    assert McpClient(acme.key()).send("tools/list", {}, **elsewhere).status_code == 200
