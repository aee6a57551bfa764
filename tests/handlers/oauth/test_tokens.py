"""The token endpoint: codes and refresh tokens, and what becomes of a grant whose secrets are used again."""

from typing import Any

import httpx
import jwt
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.audit import AuditEntry
from models.oauth import OAuthClient, OAuthGrant, OAuthRefreshToken
from models.organizations import User
from services.core.tokens import token_hash
from tests import factories
from tests.handlers.callers import Caller, Tenant, answered
from tests.handlers.oauth.requests import CLIENT_ID, RESOURCE, Client, code_of, decide, entry, query_of
from tests.harness.concurrency import at_once

Later = Any


def grant_of(session: Session) -> OAuthGrant:
    """Return the one grant, as it is now."""
    return session.scalars(select(OAuthGrant).execution_options(populate_existing=True)).one()


def error_of(response: httpx.Response, status: int = 400) -> str:
    """Check that a refusal is one of OAuth's, readable by scripts of any origin, and return its code."""
    assert response.status_code == status, response.text
    assert (response.headers["Cache-Control"], response.headers["Access-Control-Allow-Origin"]) == ("no-store", "*")
    error: str = response.json()["error"]
    return error


def ended_because(session: Session) -> list[tuple[str, str]]:
    """Return who ended connections, and why, by the audit."""
    query = select(AuditEntry).where(AuditEntry.action == "connection.revoked").order_by(AuditEntry.at)
    return [(entry.actor["type"], entry.details["why"]) for entry in session.scalars(query)]


@pytest.fixture
def code(client: Client, person: Caller, acme: Tenant) -> str:
    return code_of(decide(person, acme.id))


@pytest.fixture
def tokens(client: Client, code: str) -> dict[str, Any]:
    return answered(client.redeem(code))


class TestCodes:
    def test_code_gives_an_access_token_of_the_grant_and_a_refresh_token(
        self, client: Client, code: str, ada: User, acme: Tenant
    ) -> None:
        response = client.redeem(code)
        assert (response.headers["Cache-Control"], response.headers["Access-Control-Allow-Origin"]) == ("no-store", "*")
        tokens = response.json()
        assert tokens.keys() == {"access_token", "token_type", "expires_in", "scope", "refresh_token"}
        assert (tokens["token_type"], tokens["expires_in"]) == ("Bearer", 3600)
        assert tokens["scope"] == "freeze:read freeze:write"
        assert jwt.get_unverified_header(tokens["access_token"])["typ"] == "at+jwt"
        claims = jwt.decode(tokens["access_token"], options={"verify_signature": False})
        assert claims["exp"] - claims["iat"] == 3600
        grant = grant_of(client.session)
        wanted = (factories.ISSUER, RESOURCE, ada.id, acme.id, CLIENT_ID, grant.id, "freeze:read freeze:write")
        assert tuple(claims[name] for name in ("iss", "aud", "sub", "org", "client_id", "gid", "scope")) == wanted
        row = client.session.scalars(select(OAuthRefreshToken)).one()
        assert row.token_hash == token_hash(tokens["refresh_token"])
        assert grant.last_used_at is not None

    def test_second_use_of_a_code_ends_the_connection_for_good(
        self, client: Client, code: str, tokens: dict[str, Any]
    ) -> None:
        assert entry(client.http, tokens["access_token"]).status_code == 200
        assert error_of(client.redeem(code)) == "invalid_grant"
        assert grant_of(client.session).revoked_why == "code_reused"
        assert entry(client.http, tokens["access_token"]).status_code == 401
        assert error_of(client.refresh(tokens["refresh_token"])) == "invalid_grant"
        assert ended_because(client.session) == [("system", "code_reused")]

    def test_code_gives_tokens_once_when_sent_at_the_same_moment(self, client: Client, code: str) -> None:
        answers = at_once(*[lambda: client.redeem(code)] * 4)
        assert sorted(answer.status_code for answer in answers) == [200, 400, 400, 400]
        assert grant_of(client.session).revoked_why == "code_reused"

    @pytest.mark.parametrize(
        "changes",
        [
            {"code_verifier": "x" * 43},
            {"code_verifier": "short"},
            {"redirect_uri": "http://localhost:53077/callback"},
            {"redirect_uri": "http://localhost/callback"},
        ],
        ids=str,
    )
    def test_code_is_spent_by_an_attempt_that_fails(self, client: Client, code: str, changes: dict[str, str]) -> None:
        assert error_of(client.redeem(code, **changes)) == "invalid_grant"
        assert error_of(client.redeem(code)) == "invalid_grant"
        assert grant_of(client.session).revoked_why == "code_reused"

    def test_code_request_without_a_parameter_is_invalid_and_spends_nothing(self, client: Client, code: str) -> None:
        for name in ("code_verifier", "redirect_uri", "client_id", "grant_type", "code"):
            assert error_of(client.redeem(code, **{name: None})) == "invalid_request"
        assert client.redeem(code).status_code == 200

    def test_code_of_another_client_is_refused_and_stays_valid(self, client: Client, code: str) -> None:
        other = "https://other.example/m"
        client.session.add(OAuthClient(client_id=other))
        client.session.flush()
        assert error_of(client.redeem(code, client_id=other)) == "invalid_grant"
        assert client.redeem(code).status_code == 200

    def test_unknown_or_blocked_client_is_401(self, client: Client, code: str) -> None:
        assert error_of(client.redeem(code, client_id="https://unknown.example/m"), 401) == "invalid_client"
        client.session.get_one(OAuthClient, CLIENT_ID).blocked_at = factories.now()
        client.session.flush()
        assert error_of(client.redeem(code), 401) == "invalid_client"

    def test_code_expires_after_a_minute(self, client: Client, code: str, later: Later) -> None:
        later(seconds=60)
        assert error_of(client.redeem(code)) == "invalid_grant"

    def test_code_is_valid_for_almost_a_minute(self, client: Client, code: str, later: Later) -> None:
        later(seconds=40)
        assert client.redeem(code).status_code == 200

    @pytest.mark.parametrize("resource", ["https://evil.example/mcp", factories.AUDIENCE, "http://[::1/mcp"])
    def test_token_for_another_resource_is_refused_and_spends_nothing(
        self, client: Client, code: str, resource: str
    ) -> None:
        assert error_of(client.redeem(code, resource=resource)) == "invalid_target"
        assert client.redeem(code, resource=None).status_code == 200

    def test_repeated_and_oversized_parameters_are_refused(self, client: Client, code: str) -> None:
        def send(extra: str) -> httpx.Response:
            form = f"grant_type=authorization_code&client_id={CLIENT_ID}&code={code}&{extra}"
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            return client.http.post("/oauth/token", content=form.encode(), headers=headers)

        assert error_of(send(f"code={code}")) == "invalid_request"
        assert error_of(send("grant_type=refresh_token")) == "invalid_request"
        assert error_of(send(f"resource={RESOURCE}&resource=https://evil.example")) == "invalid_target"
        assert error_of(send(f"resource={'x' * 4097}")) == "invalid_request"
        assert client.redeem(code).status_code == 200

    @pytest.mark.parametrize("grant_type", ["password", "client_credentials", "implicit", "authorization_code2"])
    def test_other_grant_types_are_unsupported(self, client: Client, grant_type: str) -> None:
        assert error_of(client.token(grant_type=grant_type, code="x")) == "unsupported_grant_type"

    def test_client_that_uses_no_refresh_tokens_gets_none(self, client: Client, code: str) -> None:
        row = client.session.get_one(OAuthClient, CLIENT_ID)
        row.document = {**(row.document or {}), "grant_types": ["authorization_code"]}
        client.session.flush()
        assert "refresh_token" not in client.redeem(code).json()


class TestRefreshTokens:
    def test_refresh_token_is_replaced_by_its_use(self, client: Client, tokens: dict[str, Any]) -> None:
        renewed = answered(client.refresh(tokens["refresh_token"]))
        assert renewed["refresh_token"] != tokens["refresh_token"]
        assert renewed["scope"] == tokens["scope"]
        assert entry(client.http, renewed["access_token"]).status_code == 200

    def test_used_refresh_token_works_once_more_within_two_minutes(
        self, client: Client, tokens: dict[str, Any], later: Later
    ) -> None:
        first = client.refresh(tokens["refresh_token"])
        later(seconds=110)
        answers = at_once(*[lambda: client.refresh(tokens["refresh_token"])] * 4)
        assert sorted(answer.status_code for answer in answers) == [200, 400, 400, 400]
        assert {error_of(answer) for answer in answers if answer.status_code == 400} == {"invalid_grant"}
        pairs = [answer.json() for answer in (first, *answers) if answer.status_code == 200]
        assert {entry(client.http, pair["access_token"]).status_code for pair in pairs} == {200}
        assert {client.refresh(pair["refresh_token"]).status_code for pair in pairs} == {200}

    def test_reuse_after_the_grace_ends_the_connection_for_good(
        self, client: Client, tokens: dict[str, Any], later: Later
    ) -> None:
        renewed = client.refresh(tokens["refresh_token"]).json()
        later(seconds=60)
        assert client.refresh(tokens["refresh_token"]).status_code == 200
        later(seconds=61)
        assert error_of(client.refresh(tokens["refresh_token"])) == "invalid_grant"
        assert grant_of(client.session).revoked_why == "refresh_token_reused"
        assert entry(client.http, renewed["access_token"]).status_code == 401
        assert error_of(client.refresh(renewed["refresh_token"])) == "invalid_grant"
        assert ended_because(client.session) == [("system", "refresh_token_reused")]

    def test_refresh_can_narrow_the_scopes_and_not_widen_them(self, client: Client, tokens: dict[str, Any]) -> None:
        narrow = client.refresh(tokens["refresh_token"], scope="freeze:read").json()
        assert narrow["scope"] == "freeze:read"
        assert error_of(client.refresh(narrow["refresh_token"], scope="freeze:read repo:read")) == "invalid_scope"
        wide = client.refresh(narrow["refresh_token"], scope="freeze:read freeze:write offline_access")
        assert wide.json()["scope"] == "freeze:read freeze:write"

    def test_refresh_is_refused_to_another_client_or_for_another_resource(
        self, client: Client, tokens: dict[str, Any]
    ) -> None:
        other = "https://other.example/m"
        client.session.add(OAuthClient(client_id=other))
        client.session.flush()
        assert error_of(client.refresh(tokens["refresh_token"], client_id=other)) == "invalid_grant"
        refused = client.refresh(tokens["refresh_token"], resource="https://evil.example/mcp")
        assert error_of(refused) == "invalid_target"
        assert client.refresh(tokens["refresh_token"]).status_code == 200

    def test_access_token_is_no_refresh_token_and_the_other_way_round(
        self, client: Client, tokens: dict[str, Any]
    ) -> None:
        assert error_of(client.refresh(tokens["access_token"])) == "invalid_grant"
        assert error_of(client.redeem(tokens["refresh_token"])) == "invalid_grant"
        assert entry(client.http, tokens["refresh_token"]).status_code == 401

    def test_refresh_token_expires_when_unused_for_thirty_days(
        self, client: Client, tokens: dict[str, Any], later: Later
    ) -> None:
        later(days=30)
        assert error_of(client.refresh(tokens["refresh_token"])) == "invalid_grant"

    def test_connection_ends_after_ninety_days_however_it_is_used(
        self, client: Client, tokens: dict[str, Any], later: Later
    ) -> None:
        for _ in range(3):
            later(days=29, hours=23)
            tokens = client.refresh(tokens["refresh_token"]).json()
        later(hours=2, minutes=30)
        tokens = client.refresh(tokens["refresh_token"]).json()
        assert tokens["expires_in"] <= 1800
        later(minutes=31)
        assert error_of(client.refresh(tokens["refresh_token"])) == "invalid_grant"
        assert entry(client.http, tokens["access_token"]).status_code == 401

    def test_access_token_expires_after_an_hour(self, client: Client, tokens: dict[str, Any], later: Later) -> None:
        later(minutes=59)
        assert entry(client.http, tokens["access_token"]).status_code == 200
        later(minutes=1)
        assert entry(client.http, tokens["access_token"]).status_code == 401


class TestRevoke:
    @pytest.mark.parametrize("kind", ["refresh_token", "access_token"])
    def test_revoking_either_token_ends_the_connection(self, client: Client, tokens: dict[str, Any], kind: str) -> None:
        response = client.revoke(tokens[kind], token_type_hint="refresh_token")
        assert (response.status_code, response.content) == (200, b"")
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert entry(client.http, tokens["access_token"]).status_code == 401
        assert error_of(client.refresh(tokens["refresh_token"])) == "invalid_grant"
        assert ended_because(client.session) == [("user", "by_client")]
        assert client.revoke(tokens[kind]).status_code == 200

    def test_token_that_is_unknown_or_another_clients_is_no_error(self, client: Client, tokens: dict[str, Any]) -> None:
        for token in ("nonsense", "a.b.c", tokens["access_token"][:-10], tokens["refresh_token"][:-1]):
            assert client.revoke(token).status_code == 200
        assert client.revoke(tokens["refresh_token"], client_id="https://other.example/m").status_code == 200
        assert grant_of(client.session).revoked_at is None

    def test_revocation_needs_a_token(self, client: Client) -> None:
        assert error_of(client.revoke("")) == "invalid_request"

    def test_session_token_is_not_revoked_here(self, client: Client, person: Caller) -> None:
        assert person.token is not None
        assert client.revoke(person.token).status_code == 200
        assert person.get("/api/auth/connections").status_code == 200


class TestMixUp:
    def test_every_response_of_the_authorization_endpoint_names_the_issuer(
        self, client: Client, person: Caller, acme: Tenant
    ) -> None:
        locations = [
            decide(person, acme.id).json()["location"],
            decide(person, None, decision="deny").json()["location"],
            client.preview(query_of(scope="unknown")).json()["location"],
        ]
        metadata = client.http.get("/.well-known/oauth-authorization-server").json()
        for location in locations:
            assert httpx.URL(location).params["iss"] == metadata["issuer"]
