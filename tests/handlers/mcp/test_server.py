"""The MCP server: its transport, who is let in, and its tools with a key."""

import threading

import pytest

from app.edge.rate_limits import RateLimits
from app.edge.request_context import Budget
from rules.access.permissions import Principal
from tests import factories
from tests.handlers.callers import EVERYTHING, Tenant, refusal
from tests.harness.concurrency import PATIENCE
from tests.harness.mcp_client import McpClient, refusal_of
from tools.mcp_requests import ERAS, Era

each_era = pytest.mark.parametrize("era", ERAS)


class TestTransport:
    @pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
    def test_mcp_server_takes_post_only(self, acme: Tenant, method: str) -> None:
        response = acme.key().send(method, "/mcp")
        refusal(response, 405, "method_not_allowed")
        assert response.headers["Allow"] == "POST"

    def test_mcp_server_refuses_web_pages_of_another_origin(self, acme: Tenant) -> None:
        response = McpClient(acme.key()).send("tools/list", Origin="https://elsewhere.example")
        refusal(response, 403, "origin_not_allowed")

    def test_mcp_server_serves_web_pages_of_its_own_origins(self, acme: Tenant) -> None:
        for origin in (factories.AUDIENCE, "http://127.0.0.1:8080"):
            assert McpClient(acme.key()).send("tools/list", Origin=origin).status_code == 200

    def test_mcp_server_refuses_another_host(self, acme: Tenant) -> None:
        for host in ("elsewhere.example", "elsewhere.example:8080", "localhost.elsewhere.example", "localhost:x"):
            refusal(McpClient(acme.key()).send("tools/list", Host=host), 421, "misdirected_request")

    def test_mcp_server_ignores_white_space_around_its_headers(self, acme: Tenant) -> None:
        client = McpClient(acme.key())
        headers = {"MCP-Protocol-Version": "2026-07-28 ", "Mcp-Method": " tools/list "}
        assert client.send("tools/list", None, **headers).status_code == 200

    def test_mcp_server_refuses_a_body_that_is_not_json(self, acme: Tenant) -> None:
        response = acme.key().send("POST", "/mcp", content=b"{}", headers={"Content-Type": "text/plain"})
        refusal(response, 400, "unsupported_content_type")

    def test_mcp_server_refuses_a_body_that_is_too_large(self, acme: Tenant) -> None:
        for size in (1 << 16, 2 << 20):
            response = McpClient(acme.key()).send("tools/list", {"filler": "x" * size})
            refusal(response, 413, "payload_too_large")

    def test_mcp_server_refuses_what_is_no_request(self, acme: Tenant) -> None:
        cases: list[bytes] = [
            b"",
            b"[",
            b"[]",
            b"7",
            b"\xff",
            b'{"jsonrpc":"2.0","id":1}',
            b'{"jsonrpc":"2.0","id":1,"method":5}',
            b'{"jsonrpc":"2.0","id":{},"method":"tools/list"}',
            b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}',
            b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}',
            b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}',
            b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":' + b"[" * 900 + b"]" * 900 + b"}}",
            b'{"jsonrpc":"2.0","id":' + b"9" * 18 + b',"method":"tools/list","params":{"a":' + b"9" * 5000 + b"}}",
        ]
        for body in cases:
            for version in ("2025-06-18", "2026-07-28"):
                media = "application/json"
                headers = {"Content-Type": media, "Accept": media, "MCP-Protocol-Version": version}
                response = acme.key().send("POST", "/mcp", content=body, headers=headers)
                assert response.status_code == 400
                assert refusal_of(response)["code"] < 0
                said = response.text.lower()
                assert not any(
                    word in said for word in ("pydantic", "validation error", "parse error:", "line 1", "column")
                )

    def test_mcp_server_shakes_hands_with_older_clients(self, acme: Tenant) -> None:
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        result = McpClient(acme.key(), "handshake").request("initialize", about)
        assert result["serverInfo"]["name"] == "change-freeze"
        assert result["capabilities"]["tools"] == {"listChanged": False}
        assert "Preview a scope" in result["instructions"]

    def test_mcp_server_can_be_discovered_without_a_handshake(self, acme: Tenant) -> None:
        result = McpClient(acme.key()).request("server/discover")
        assert result["supportedVersions"] == ["2026-07-28"]


class TestCredentials:
    def test_mcp_server_says_where_a_client_gets_a_credential(self, acme: Tenant) -> None:
        response = McpClient(acme.anybody).send("tools/list")
        refusal(response, 401, "missing_credentials")
        challenge = response.headers["WWW-Authenticate"]
        assert challenge.startswith("Bearer resource_metadata=")
        assert f'"{factories.AUDIENCE}/.well-known/oauth-protected-resource/mcp"' in challenge
        assert 'scope="audit:read ' in challenge

    @pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
    def test_mcp_server_challenges_every_request_without_a_credential(self, acme: Tenant, method: str) -> None:
        response = acme.anybody.send(method, "/mcp")
        assert response.status_code == 401
        assert response.headers["WWW-Authenticate"].startswith("Bearer resource_metadata=")

    @pytest.mark.parametrize("method", ["initialize", "tools/list", "server/discover", "tools/call"])
    def test_mcp_server_says_nothing_to_members_of_a_deleted_organization(self, acme: Tenant, method: str) -> None:
        clients = [McpClient(acme.key()), McpClient(acme.connected("owner"))]
        acme.organization.deleted_at = factories.now()
        acme.session.flush()
        for client in clients:
            refusal(client.send(method, {"name": "svc_list_freezes"}), 410, "organization_deleted")


class TestTools:
    @each_era
    def test_tools_are_listed_by_name(self, acme: Tenant, era: Era) -> None:
        tools = list(McpClient(acme.key(), era).tools())
        assert tools == sorted(tools)
        assert "svc_start_freeze" in tools

    @pytest.mark.parametrize(
        ("scopes", "limit"), [((), 60_000), (("freeze:read",), 12_000)], ids=["all", "freeze:read"]
    )
    def test_list_of_tools_is_small(self, acme: Tenant, scopes: tuple[str, ...], limit: int) -> None:
        assert len(McpClient(acme.key(*scopes)).send("tools/list").content) <= limit

    def test_argument_of_the_path_is_required(self, acme: Tenant) -> None:
        result = McpClient(acme.key()).call("svc_get_freeze")
        assert result.error["details"] == [
            {"path": "freezeId", "message": "freezeId is required", "code": "missing_parameter"}
        ]

    @pytest.mark.parametrize("era", ERAS)
    def test_invalid_arguments_are_refused_by_the_operation(self, acme: Tenant, era: Era) -> None:
        client = McpClient(acme.key(), era)
        assert client.call("svc_list_freezes", limit="many").code == "invalid_parameter"
        assert client.call("svc_list_freezes", unknown=1).code == "invalid_parameter"
        assert client.call("svc_get_repo", repoId="acme/\x00").is_error
        assert client.call("svc_start_freeze", scope="all", reason=7).is_error
        assert client.call("svc_preview_scope").code == "missing_parameter"

    @each_era
    def test_tool_answers_what_its_operation_answers(self, acme: Tenant, era: Era) -> None:
        acme.repository("web")
        key = acme.key()
        result = McpClient(key, era).call("svc_get_repo", repoId="acme/web")
        assert result.structured == {"clock": result.structured["clock"], **key.get("/v1/repos/acme%2Fweb").json()}
        assert '"fullName":"acme/web"' in result.text

    @each_era
    def test_unknown_tool_is_an_error_of_the_protocol(self, acme: Tenant, era: Era) -> None:
        error = refusal_of(McpClient(acme.key(), era).send("tools/call", {"name": "svc_fly", "arguments": {}}))
        assert error == {"code": -32602, "message": "Unknown tool: svc_fly"}

    def test_refusal_is_the_error_envelope_of_the_operation(self, acme: Tenant) -> None:
        result = McpClient(acme.key("freeze:read")).call("svc_start_freeze", **EVERYTHING)
        assert result.error["code"] == "insufficient_scope"
        assert result.error["type"] == "forbidden"
        assert result.response is not None
        assert result.error["requestId"] == result.response.headers["X-Request-Id"]

    def test_write_is_audited_with_source_mcp(self, acme: Tenant) -> None:
        factories.branch(acme.session, acme.repository("web"))
        key = acme.key()
        result = McpClient(key).call("svc_start_freeze", **EVERYTHING)
        assert result.structured["state"] == "in_force"
        [entry] = key.get("/v1/audit", source="mcp").json()["data"]
        assert (entry["action"], entry["source"], entry["actor"]["type"]) == ("freeze.started", "mcp", "api_key")

    def test_write_takes_effect_once_for_each_idempotency_key(self, acme: Tenant) -> None:
        factories.branch(acme.session, acme.repository("web"))
        client = McpClient(acme.key())
        first = client.call("svc_start_freeze", idempotencyKey="one", **EVERYTHING)
        again = client.call("svc_start_freeze", idempotencyKey="one", **EVERYTHING)
        assert again.structured == first.structured
        other = client.call("svc_start_freeze", idempotencyKey="one", **EVERYTHING | {"reason": "Another reason"})
        assert other.code == "idempotency_key_reuse"


class TestStepUp:
    """A connected client that calls a tool beyond its scopes."""

    def test_response_names_the_scopes_that_it_has_and_needs(self, acme: Tenant) -> None:
        client = McpClient(acme.connected("owner", "freeze:read", "audit:read"))
        result = client.call("svc_start_freeze", **EVERYTHING)
        assert result.code == "insufficient_scope"
        assert result.response is not None
        assert result.response.status_code == 403
        metadata = f'resource_metadata="{factories.AUDIENCE}/.well-known/oauth-protected-resource/mcp"'
        scopes = 'scope="audit:read freeze:read freeze:write"'
        expected = f'Bearer error="insufficient_scope", {scopes}, {metadata}'
        assert result.response.headers["WWW-Authenticate"] == expected

    def test_refusal_of_a_role_or_of_a_key_is_no_challenge(self, acme: Tenant) -> None:
        for caller in (acme.connected("viewer", "freeze:write"), acme.key("freeze:read")):
            result = McpClient(caller).call("svc_start_freeze", **EVERYTHING)
            assert result.code in {"insufficient_permission", "insufficient_scope"}
            assert result.response is not None
            assert (result.response.status_code, "WWW-Authenticate" in result.response.headers) == (200, False)

    def test_connected_client_acts_as_its_person(self, acme: Tenant) -> None:
        factories.branch(acme.session, acme.repository("web"))
        result = McpClient(acme.connected("member", "freeze:write")).call("svc_start_freeze", **EVERYTHING)
        assert result.structured["createdBy"]["type"] == "user"


class TestRateLimit:
    """With counters of the test's own, which depend neither on Redis nor on the clock."""

    def test_each_request_counts_once(self, acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
        counted: list[bool] = []

        async def count(_: RateLimits, __: Principal, *, write: bool) -> Budget:
            counted.append(write)
            return Budget(1, 1)

        monkeypatch.setattr(RateLimits, "count", count)
        client = McpClient(acme.key())
        client.tools()
        client.call("svc_list_freezes")
        client.call("svc_end_freeze", freezeId="none", confirm=True)
        client.call("svc_end_freeze", freezeId="none")  # is not confirmed
        client.call("svc_get_freeze")  # lacks an argument
        client.send("tools/call", {"name": "svc_fly"})
        assert counted == [False, False, True, False, False, False]

    def test_request_that_is_not_valid_counts_too(self, acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
        counted = threading.Event()

        async def count(_: RateLimits, __: Principal, *, write: bool) -> Budget:
            counted.set()
            return Budget(1, 1)

        monkeypatch.setattr(RateLimits, "count", count)
        McpClient(acme.key()).send("tools/call", {"arguments": {}})
        assert counted.wait(PATIENCE)

    def test_every_answer_says_what_is_left_of_the_limits(self, acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
        async def count(_: RateLimits, __: Principal, *, write: bool) -> Budget:
            return Budget(17, 42)

        monkeypatch.setattr(RateLimits, "count", count)
        client = McpClient(acme.key())
        answers = [
            client.send("tools/list"),
            client.send("server/discover"),
            client.send("nothing"),
            client.send("tools/call", {"name": "svc_list_freezes"}),
            client.send("tools/call", {"name": "svc_end_freeze", "arguments": {"freezeId": "frz_1"}}),
            client.send("tools/call", {"name": "svc_fly"}),
            client.send("tools/call", {"arguments": {}}),
            client.caller.send("POST", "/mcp", content=b"[]", headers={"Content-Type": "application/json"}),
            client.caller.send("GET", "/mcp"),
        ]
        found = [(each.headers["RateLimit-Remaining"], each.headers["RateLimit-Reset"]) for each in answers]
        assert found == [("17", "42")] * len(answers)

    def test_refusal_says_when_to_retry(self, acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
        async def count(_: RateLimits, __: Principal, *, write: bool) -> Budget:
            return Budget(-1, 30)

        monkeypatch.setattr(RateLimits, "count", count)
        client = McpClient(acme.key())
        for name in ("svc_list_freezes", "svc_get_freeze"):
            result = client.call(name)
            assert (result.code, result.error["retryAfterSeconds"]) == ("rate_limited", 30)
        response = client.send("tools/list")
        refusal(response, 429, "rate_limited")
        assert response.headers["Retry-After"] == "30"


class TestPlan:
    def test_tool_of_a_feature_that_the_plan_lacks_is_refused(self, globex: Tenant) -> None:
        proposal = {"pullRequest": "globex/web#7", "reason": "Needed for the release"}
        for name in ("svc_grant_exception", "svc_request_exception"):
            assert McpClient(globex.key()).call(name, **proposal).code == "feature_not_available"
