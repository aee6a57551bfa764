"""Who may call the compatibility API, where the key may stand, and that it is written nowhere."""

import base64
from collections.abc import Callable
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import text

from models.repositories import WatchedBranch
from services.core.tokens import new_session_token, token_hash
from services.identity.api_key_secrets import new_secret
from tests import factories
from tests.handlers.callers import Tenant
from tests.handlers.compatibility.requests import PREFIX, ClassicClient, refused, shown

MAIN = f"{PREFIX}/branches/acme/web/main/"


class TestPlacesOfTheToken:
    def test_request_without_a_token_is_401(self, http: httpx.Client, acme: Tenant) -> None:
        for query in ("", "?access_token=", "?access_token=%20%00", "?token=x"):
            refused(http.get(MAIN + query), 401, "missing_credentials")
        assert "access_token" in refused(http.post(MAIN, content=b"frozen=true"), 401, "missing_credentials")

    def test_malformed_token_is_401(self, http: httpx.Client, acme: Tenant) -> None:
        cases: list[str] = [
            "nonsense",
            "svc_live_x",
            "%C3%A9",
            "a%20b",
            "%FF",
            "%",
            "%0a",
            "x" * 5000,
            "svc_session_x",
            "eyJ",
        ]
        for token in cases:
            code = "missing_credentials" if token == "%0a" else "invalid_token"
            refused(http.get(f"{MAIN}?access_token={token}"), 401, code)

    def test_different_tokens_are_refused_wherever_they_stand(
        self, http: httpx.Client, client: ClassicClient, client_with: Callable[..., ClassicClient], web: WatchedBranch
    ) -> None:
        other = client_with("freeze:write").token
        for query, header, body in (
            (other, client.token, b""),
            (client.token, "nonsense", b""),
            (client.token, None, f"access_token={other}".encode()),
            (f"{client.token}&access_token={other}", None, b""),
            ("", client.token, b'{"access_token": 5}'),
        ):
            headers = {"Content-Type": "application/json" if body[:1] == b"{" else "application/x-www-form-urlencoded"}
            headers |= {"Authorization": f"Bearer {header}"} if header else {}
            answer = http.post(f"{MAIN}?access_token={query}", content=body, headers=headers)
            assert client.token not in refused(answer, 400, "invalid_parameter")

    def test_same_token_in_several_places_is_one(
        self, http: httpx.Client, client: ClassicClient, web: WatchedBranch
    ) -> None:
        headers = {"Authorization": f"bearer  {client.token}"}
        body = f"access_token={client.token}&access_token= {client.token} ".encode()
        shown(http.post(f"{MAIN}?access_token={client.token}", content=body, headers=headers))


class TestCredentials:
    def test_tokens_of_sessions_are_403(self, http: httpx.Client, acme: Tenant, web: WatchedBranch) -> None:
        opaque = new_session_token()
        person = factories.member(acme.session, acme.organization, "owner")
        factories.login(acme.session, person, acme.organization, token_hash=token_hash(opaque))
        acme.session.flush()
        for token in (acme.person("owner").token, opaque):
            for answer in (
                http.get(MAIN, headers={"Authorization": f"Bearer {token}"}),
                http.get(f"{MAIN}?access_token={token}"),
                http.post(MAIN, content=f"frozen=true&access_token={token}".encode()),
                http.post(f"{PREFIX}/generate_access_token?access_token={token}"),
            ):
                refused(answer, 403, "credential_type_not_allowed")

    def test_revoked_and_expired_keys_are_401(self, http: httpx.Client, acme: Tenant) -> None:
        hour_ago = factories.now() - timedelta(hours=1)
        for columns, code in (({"revoked_at": hour_ago}, "invalid_token"), ({"expires_at": hour_ago}, "token_expired")):
            token = acme.key("freeze:read", **columns).token
            refused(http.get(f"{MAIN}?access_token={token}"), 401, code)

    def test_other_organisation_is_answered_like_an_unknown_one(
        self, client: ClassicClient, globex: Tenant, web: WatchedBranch
    ) -> None:
        factories.branch(client.session, globex.repository("shop"))
        for path in ("/branches/globex/shop/main", "/branches/globex/nothing/main", "/branches/nobody/web/main"):
            refused(client.get(path), 404, "repository_not_found")
            refused(client.post(b"frozen=true", path), 404, "repository_not_found")
        refused(client.get("/branches/globex"), 404, "repository_not_found")
        body = b"account=globex&repository=shop&branch=main&one_off_freeze_at=0&one_off_unfreeze_at=4000000000"
        refused(client.post(body, "/scheduled_freezes"), 404, "repository_not_found")

    def test_generating_a_token_is_refused_for_every_key(
        self, http: httpx.Client, client_with: Callable[..., ClassicClient], acme: Tenant
    ) -> None:
        for scope in ("freeze:read", "billing:write"):
            client = client_with(scope)
            answer = client.post(b"organization=acme", "/generate_access_token")
            assert "/settings/keys" in refused(answer, 400, "compat_feature_removed")
        in_body = f"access_token={client.token}".encode()
        refused(http.post(f"{PREFIX}/generate_access_token/", content=in_body), 400, "compat_feature_removed")
        refused(http.post(f"{PREFIX}/generate_access_token"), 401, "missing_credentials")
        unknown = f"{PREFIX}/generate_access_token?access_token={new_secret()}"
        refused(http.post(unknown), 401, "invalid_token")

    def test_answers_to_keys_have_rate_limits_also_on_unknown_paths(
        self, client: ClassicClient, web: WatchedBranch
    ) -> None:
        for answer in (client.get(), client.get("/nothing"), client.http.delete(client.address("/branches/acme"))):
            assert int(answer.headers["RateLimit-Remaining"]) >= 0


def test_key_is_written_nowhere(client: ClassicClient, web: WatchedBranch, capfd: pytest.CaptureFixture[str]) -> None:
    client.change(f"frozen=true&access_token={client.token}&user_name=Ada".encode())
    client.post(f'{{"frozen": "maybe", "access_token": "{client.token}"}}'.encode(), content_type="application/json")
    client.post(b"{", content_type="application/json")
    client.get("/nothing")
    client.http.get("/openapi.json")
    metrics = client.http.get("/metrics").text
    captured = capfd.readouterr()
    encoded = base64.b64encode(client.token.encode()).decode()
    for secret in (client.token, client.token.removeprefix("svc_live_"), encoded):
        assert secret not in captured.err + captured.out + metrics
        tables = client.session.scalars(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).all()
        for table in tables:
            found = client.session.scalar(
                text(f'SELECT count(*) FROM "{table}" t WHERE t::text LIKE :x'), {"x": f"%{secret}%"}
            )
            assert found == 0, table
