"""Credentials: whom they identify, and what they permit; forged ones are in `contract/test_identity_attacks.py`."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import jwt
import psycopg
import pytest

from services.identity.api_key_secrets import looks_like_secret, new_secret
from tests.harness.accounts import code
from tests.harness.clock import MovableClock
from tests.harness.tenants import Tenant, tenant


def get(http: httpx.Client, path: str, credential: str | None, method: str = "GET") -> httpx.Response:
    headers = {} if credential is None else {"Authorization": f"Bearer {credential}"}
    return http.request(method, path, headers=headers)


OK = (200, None)


class TestAuthorizationHeader:
    @pytest.mark.parametrize("header", ["", "Bearer", "Basic dXNlcjpwYXNz", "Bearer a b", "Bearer\ta", "svc_live_x"])
    def test_absent_or_unreadable_authorization_header_is_missing_credentials(
        self, http: httpx.Client, acme: Tenant, header: str
    ) -> None:
        response = http.get("/v1/things", headers={"Authorization": header})
        assert code(response) == (401, "missing_credentials")

    def test_authorization_scheme_is_case_insensitive(self, http: httpx.Client, acme: Tenant) -> None:
        assert code(http.get("/v1/things", headers={"Authorization": f"bEARER   {acme.key()}"})) == OK

    def test_authorization_header_with_non_ascii_bytes_is_missing_credentials(
        self, http: httpx.Client, acme: Tenant
    ) -> None:
        response = http.get("/v1/things", headers={b"Authorization": b"Bearer \xff\xfe"})
        assert code(response) == (401, "missing_credentials")

    @pytest.mark.parametrize("token", ["x", "svc_live_", "svc_live_" + "a" * 38, "a.b.c", "..", "eyJ.eyJ.", "x" * 5000])
    def test_unrecognized_token_is_invalid(self, http: httpx.Client, acme: Tenant, token: str) -> None:
        assert code(get(http, "/v1/things", token)) == (401, "invalid_token")

    def test_session_token_is_rejected_with_a_hint_to_get_an_access_token(
        self, http: httpx.Client, acme: Tenant
    ) -> None:
        response = get(http, "/v1/things", "svc_session_" + "a" * 43)
        assert code(response) == (401, "invalid_token")
        assert "GET /api/auth/token" in response.json()["error"]["message"]


class TestKeySecrets:
    def test_secret_is_recognized_by_its_checksum(self) -> None:
        secret = new_secret()
        assert len(secret) == len("svc_live_") + 38
        assert looks_like_secret(secret)
        swapped = secret[:-1] + ("a" if secret[-1] != "a" else "b")
        assert not looks_like_secret(swapped)
        assert not looks_like_secret(secret + "\n")


class TestKeys:
    def test_api_key_needs_any_of_the_scopes_of_an_operation(self, http: httpx.Client, acme: Tenant) -> None:
        assert code(get(http, "/v1/things/a", acme.key("repo:read"))) == OK
        assert code(get(http, "/v1/things/a", acme.key("freeze:read"))) == OK
        response = get(http, "/v1/things/a", acme.key("freeze:write"))
        assert code(response) == (403, "insufficient_scope")
        assert "freeze:read or repo:read" in response.json()["error"]["message"]

    def test_expired_revoked_or_replaced_key_is_rejected_to_the_second(
        self, http: httpx.Client, acme: Tenant, sql: psycopg.Connection[Any], clock: MovableClock
    ) -> None:
        moment = datetime(2027, 3, 1, 12, tzinfo=UTC)
        clock.at = moment - timedelta(seconds=1)
        expiring = acme.key(expires_at=moment)
        replaced, replaced_id = acme.key_with_id()
        sql.execute("UPDATE api_key_secrets SET ends_at = %s WHERE api_key_id = %s", (moment, replaced_id))
        revoked, revoked_id = acme.key_with_id()
        for secret in (expiring, replaced, revoked):
            assert code(get(http, "/v1/things", secret)) == OK
        clock.at = moment
        sql.execute("UPDATE api_keys SET revoked_at = %s WHERE id = %s", (moment, revoked_id))
        assert code(get(http, "/v1/things", expiring)) == (401, "token_expired")
        assert code(get(http, "/v1/things", replaced)) == (401, "invalid_token")
        assert code(get(http, "/v1/things", revoked)) == (401, "invalid_token")
        clock.at = moment + timedelta(seconds=1)
        assert code(get(http, "/v1/things", expiring)) == (401, "token_expired")


class TestSessions:
    def test_access_token_expires_to_the_second(self, http: httpx.Client, acme: Tenant, clock: MovableClock) -> None:
        session = acme.session(ttl=timedelta(minutes=10))
        expires_at = datetime.fromtimestamp(jwt.decode(session, options={"verify_signature": False})["exp"], UTC)
        clock.at = expires_at - timedelta(seconds=1)
        assert code(get(http, "/v1/things", session)) == OK
        for late in (0, 1):
            clock.at = expires_at + timedelta(seconds=late)
            assert code(get(http, "/v1/things", session)) == (401, "token_expired")

    def test_support_session_reads_everything_and_changes_nothing(self, http: httpx.Client, acme: Tenant) -> None:
        session = acme.session("viewer", support=True)
        assert code(get(http, "/v1/administer", session)) == OK
        for method, path in (("DELETE", "/v1/things/a"), ("POST", "/v1/things"), ("POST", "/v1/installed")):
            assert code(get(http, path, session, method)) == (403, "impersonation_read_only")


class TestPreconditions:
    def test_operation_on_the_installation_needs_one_that_is_active(
        self, http: httpx.Client, acme: Tenant, sql: psycopg.Connection[Any]
    ) -> None:
        assert code(get(http, "/v1/installed", acme.key(), "POST")) == OK
        globex = tenant(sql, "globex", installed=False)
        response = get(http, "/v1/installed", globex.key(), "POST")
        assert code(response) == (409, "invalid_state")
        assert "not installed for this organisation yet. Install it with GET /v1/github/install-url" in response.text
        sql.execute("UPDATE installations SET state = 'removed'")
        assert code(get(http, "/v1/installed", acme.key(), "POST")) == (410, "installation_removed")
        sql.execute("UPDATE installations SET state = 'suspended'")
        assert code(get(http, "/v1/installed", acme.key(), "POST")) == (409, "installation_suspended")
        assert code(get(http, "/v1/things", acme.key())) == OK

    def test_asynchronous_handler_reads_only_its_own_organization(
        self, http: httpx.Client, acme: Tenant, sql: psycopg.Connection[Any]
    ) -> None:
        globex = tenant(sql, "globex")
        get(http, "/v1/things/a", acme.key(), "DELETE")
        for _ in range(3):
            assert get(http, "/v1/things/a/peek", acme.key()).json()["name"] == "1"
            assert get(http, "/v1/things/a/peek", globex.key()).json()["name"] == "0"
