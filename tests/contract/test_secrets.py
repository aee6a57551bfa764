"""I10: whatever people and programs are given in secret is nowhere but with them.

A whole life of secrets is lived over HTTP, with every log line of the process kept, down to DEBUG. Then each secret is
looked for in the logs, in everything that Redis holds (jobs too), in every refusal, and in every row of every table.
"""

import base64
import io
import json
import logging
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from psycopg import sql
from redis import Redis
from sqlalchemy import select
from sqlalchemy.orm import Session

from app import logs
from app.config import Config
from app.main import create_app
from models.oauth import OAuthClient
from models.organizations import Organization, SigningKey
from services.core.encryption import decrypt
from services.identity.signing_keys import USE
from tests import factories
from tests.conftest import as_libpq
from tests.handlers.callers import EVERYTHING
from tests.handlers.oauth.requests import CLIENT_ID, DECIDE, DOCUMENT, PREVIEW, REDIRECT, VERIFIER, answer_of, query_of
from tests.harness.accounts import PASSWORD, SECRET_KEY, ask, mailed_token, token_of
from tests.harness.product import product_config, product_parts
from tests.harness.servers import client_of, serving
from tests.harness.sessions import committing
from tools.fake_slack import FakeSlack, serve
from tools.fake_slack.settings import CLIENT_ID as CLIENT_ID_OF_SLACK
from tools.fake_slack.settings import CLIENT_SECRET, SIGNING_SECRET
from tools.mcp_requests import request_of

ADDRESS = "grace@example.com"
WRONG = "nine purple wheelbarrows"
SECOND = "eight green bicycles"
THIRD = "ten yellow umbrellas"
OTHER_ADDRESS = "grace.hopper@example.com"
CURSORS = "what signs the cursors of tests"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
GRANT = "urn:ietf:params:oauth:grant-type:device_code"
BROKEN = (
    ("sessions",),
    ("calendar_feeds", "device_authorizations", "one_time_tokens", "slack_connections", "webhook_endpoints"),
    ("api_key_secrets", "mails", "slack_links"),
    ("throttled_attempts",),
)
"""Tables that are missing for a while, so that requests fail in the middle and are logged whole.

Of those that are missing together, no request needs two.
"""
BROKEN_FOR_CLIENTS = (
    ("oauth_clients",),
    ("oauth_grants",),
    ("oauth_codes",),
    ("oauth_refresh_tokens",),
    ("freezes",),
    ("audit_entries",),
)


@dataclass
class Life:
    """The requests, the secrets, and the responses to rejected callers."""

    http: httpx.Client
    session: Session
    secrets: dict[str, str] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)
    sent: list[tuple[str, str, str | None, dict[str, Any]]] = field(default_factory=list)

    def ask(self, method: str, path: str, token: str | None = None, **request: Any) -> Any:
        """Return what is answered, decoded; a refusal is kept."""
        self.sent.append((method, path, token, request))
        answer = ask(self.http, method, path, token, **request)
        self.http.cookies.clear()
        self.statuses.add(answer.status_code)
        if answer.status_code >= 400:
            self.refusals.append(answer.text)
        return answer.json() if answer.headers.get("Content-Type") == "application/json" else None

    def keep(self, name: str, secret: str) -> str:
        """Remember a secret: it has to be one, and each is another."""
        assert len(secret) > 15, name
        assert secret not in self.secrets.values(), name
        self.secrets[name] = secret
        return secret

    def sign_up(self) -> str:
        """Have an account, choose another password, and return a session token."""
        body = {"name": "Grace Hopper", "email": ADDRESS, "password": PASSWORD}
        self.ask("POST", "/api/auth/sign-up", json=body)
        confirming = self.keep("confirming", mailed_token(self.session, ADDRESS))
        self.ask("POST", "/api/auth/verify-email", json={"token": confirming, "password": WRONG})
        self.ask("POST", "/api/auth/verify-email", json={"token": confirming, "password": PASSWORD})
        self.ask("POST", "/api/auth/sign-up", json=body)
        self.ask("POST", "/api/auth/sign-in", json={"email": ADDRESS, "password": WRONG})
        self.ask("POST", "/api/auth/sign-in", json={"email": WRONG, "password": WRONG})
        first = self.ask("POST", "/api/auth/sign-in", json={"email": ADDRESS, "password": PASSWORD})
        self.keep("first session", first["sessionToken"])
        self.ask("POST", "/api/auth/forgot-password", json={"email": ADDRESS})
        resetting = self.keep("resetting", mailed_token(self.session, ADDRESS))
        self.ask("POST", "/api/auth/reset-password", json={"token": resetting, "password": SECOND})
        self.ask("POST", "/api/auth/reset-password", json={"token": resetting, "password": WRONG})
        again = self.ask("POST", "/api/auth/sign-in", json={"email": ADDRESS, "password": SECOND})
        self.change_account(again["sessionToken"])
        return self.keep("session", again["sessionToken"])

    def change_account(self, token: str) -> None:
        """Choose a third password and the second again, another address and the first again."""
        once = {"Idempotency-Key": "another password"}
        for current, new in ((WRONG, THIRD), (SECOND, "password12"), (SECOND, THIRD), (THIRD, SECOND)):
            body = {"currentPassword": current, "password": new}
            self.ask("POST", "/api/auth/change-password", token, json=body, headers=once if new == THIRD else {})
        for address in (OTHER_ADDRESS, ADDRESS):
            for password in (WRONG, SECOND):
                self.ask("POST", "/api/auth/change-email", token, json={"email": address, "password": password})
            confirming = self.keep(f"to {address}", mailed_token(self.session, address))
            for _ in range(2):
                self.ask("POST", "/api/auth/confirm-email", token, json={"token": confirming})

    def work(self, token: str) -> None:
        """Found an organisation, with keys, an invitation and an installation."""
        self.ask("POST", "/v1/onboarding/bootstrap", self.keep("JWT", self._mint(token)), json={})
        minted = self.keep("second JWT", self._mint(token))
        body = {"name": "A key", "scopes": ["freeze:read"], "expiresAt": None}
        once = {"Idempotency-Key": self.keep("idempotency key", "what-a-client-calls-a-request")}
        for name in ("key", "key again"):
            made = self.ask("POST", "/v1/api-keys", minted, json=body, headers=once)
            self.secrets.setdefault(name, made["secret"])
        path = f"/v1/api-keys/{made['apiKey']['id']}/rotate"
        self.keep("rotated key", self.ask("POST", path, minted, json={}, headers={"Idempotency-Key": "2"})["secret"])
        feed = self.ask("POST", "/v1/calendar-feeds", minted, json={"name": "A calendar"})
        path = urlsplit(feed["url"]).path
        self.keep("calendar feed", path.removeprefix("/calendars/").removesuffix(".ics"))
        self.ask("GET", path)
        self.ask("GET", path, params={"unknown": "x"})
        wanted = {"name": "A webhook", "url": "https://hooks.example.com/in", "events": ["*"]}
        webhook = self.ask("POST", "/v1/webhooks", minted, json=wanted, headers={"Idempotency-Key": "3"})
        self.keep("secret of a webhook", webhook["secret"])
        path = f"/v1/webhooks/{webhook['webhook']['id']}"
        self.keep("rotated secret of a webhook", self.ask("POST", f"{path}/rotate", minted)["secret"])
        for rest in ("", "/deliveries"):
            self.ask("GET", path + rest, minted)
        self.ask("POST", f"{path}/test", minted)
        self.ask("GET", "/v1/freezes", self.secrets["rotated key"])
        self.ask("POST", "/v1/freezes", self.secrets["rotated key"], json={})
        invitation = {"email": "eve@example.com", "role": "member"}
        invited = self.ask("POST", "/v1/invitations", minted, json=invitation)
        self.keep("invitation", mailed_token(self.session, "eve@example.com"))
        link = self.ask("GET", f"/v1/invitations/{invited['id']}/link", minted)
        self.ask("GET", "/v1/invitations/preview", minted, params={"token": self.keep("link", token_of(link["url"]))})
        self.keep("state", token_of(self.ask("GET", "/v1/github/install-url", minted)["url"]))
        claim = {"installationId": 7, "state": self.secrets["state"], "code": self.keep("code", "a" * 10 + "b" * 10)}
        self.ask("POST", "/v1/installations/claim", minted, json=claim)

    def let_a_device_in(self, token: str) -> None:
        """Sign a device in."""
        asked = self.ask("POST", "/api/auth/device/code", content="client_id=cli", headers=FORM)
        self.keep("device code", asked["device_code"])
        decision = {"userCode": asked["user_code"], "decision": "approve"}
        body = f"grant_type={GRANT}&client_id=cli&device_code={asked['device_code']}"
        self.ask("POST", "/api/auth/device/token", content=body, headers=FORM)
        self.ask("POST", "/api/auth/device/approve", token, json=decision)
        given = self.ask("POST", "/api/auth/device/token", content=body, headers=FORM)
        self.keep("device's JWT", given["access_token"])
        self.keep("device's session", given["session_token"])
        self.ask("POST", "/api/auth/device/token", content=body, headers=FORM)

    def connect_a_client(self, token: str) -> None:
        """Connect an MCP client, have it act and renew its tokens, and end the connection."""
        now = factories.now()
        client = OAuthClient(client_id=CLIENT_ID, document=DOCUMENT, fetched_at=now, fresh_until=now + timedelta(1))
        self.session.add(client)
        self.session.flush()
        [organization] = self.session.scalars(select(Organization.id))
        query = query_of(state=self.keep("state of a client", "what-a-client-remembers-of-a-request"))
        self.ask("POST", PREVIEW, json={"query": query})
        self.ask("GET", f"/oauth/authorize?{query}")
        decision = {"query": query, "decision": "approve", "organizationId": organization, "scopes": ["freeze:write"]}
        for name in ("authorization code", "second authorization code"):
            location = self.ask("POST", DECIDE, token, json=decision)["location"]
            code = self.keep(name, answer_of(location)["code"])
        redeemed = {
            "grant_type": "authorization_code",
            "client_id": CLIENT_ID,
            "redirect_uri": REDIRECT,
            "code_verifier": self.keep("code verifier", VERIFIER),
        }
        wrong = {**redeemed, "code": self.secrets["authorization code"], "code_verifier": "x" * 43}
        self.ask("POST", "/oauth/token", data=wrong)
        given = self.ask("POST", "/oauth/token", data={**redeemed, "code": code})
        self.keep("access token", given["access_token"])
        renewed = {"grant_type": "refresh_token", "client_id": CLIENT_ID}
        refreshed = {**renewed, "refresh_token": self.keep("refresh token", given["refresh_token"])}
        given = self.ask("POST", "/oauth/token", data=refreshed)
        self.keep("second refresh token", given["refresh_token"])
        access = self.keep("second access token", given["access_token"])
        arguments = {**EVERYTHING, "idempotencyKey": self.keep("key of a tool call", "what-a-client-calls-a-tool-call")}
        for tool in ("svc_start_freeze", "svc_list_freezes"):
            headers, body = request_of("tools/call", {"name": tool, "arguments": arguments})
            self.ask("POST", "/mcp", access, content=body, headers=headers)
        self.ask("GET", "/v1/freezes", access)
        revoked = {"token": self.secrets["second refresh token"], "client_id": CLIENT_ID}
        self.ask("POST", "/oauth/revoke", data=revoked)
        self.ask("POST", "/oauth/token", data={**redeemed, "code": code})

    def connect_slack(self, token: str, slack: FakeSlack) -> None:
        """Connect a workspace, link a Slack user, and lose both."""
        minted = self._mint(token)
        for attempt in ("", "second "):
            url = self.ask("GET", "/v1/slack/install-url", minted, params={"team": "T0ACME"})["url"]
            back = slack.install(url)
            for name, secret in back.items():
                self.keep(f"{attempt}{name} of Slack", secret)
            self.ask("GET", "/slack", params=back)
            self.ask("POST", "/v1/slack/claim", minted, json=back)
            self.ask("POST", "/v1/slack/claim", minted, json=back)
        self.keep("token of Slack", slack.tokens[0].access_token)
        link = slack.type("link").body["blocks"]
        found = re.search(r"/slack/link\?token=([\w-]{43})", json.dumps(link))
        assert found is not None, link
        linking = self.keep("link of a Slack user", found[1])
        self.ask("GET", "/slack/link", params={"token": linking})
        for _ in range(2):
            self.ask("POST", "/v1/slack/link", minted, json={"token": linking})
        self.ask("POST", "/v1/slack/subscriptions", minted, json={"channelId": "C0RELEASES"})
        slack.faults.add("error", "/api/", status=500)
        self.ask("DELETE", "/v1/slack", minted)

    def go_wrong(self) -> None:
        """Show each secret where it does not belong: in bodies of every wrong shape, in queries and as credentials."""
        for secret in list(self.secrets.values()):
            self.ask("GET", "/v1/freezes", secret, params={"cursor": secret, "token": secret})
            self.ask("GET", "/api/auth/token", secret + "x", headers={"Cookie": f"session={secret}"})
            self.ask("POST", "/api/auth/sign-in", json={"email": [secret], "password": {"a": secret}})
            self.ask("POST", "/api/auth/verify-email", json={"token": secret + "x", "password": secret})
            raw: dict[str, Any] = {"content": f'{{"token": "{secret}"', "headers": {"Content-Type": "application/json"}}
            self.ask("POST", "/api/auth/verify-email", **raw)
            self.ask("POST", "/api/auth/device/token", content=f"grant_type={secret}&client_id={secret}", headers=FORM)
            self.ask("GET", "/verify", params={"token": secret})
            self.ask("GET", "/slack", params={"state": secret, "code": secret, "error": secret})
            self.ask("POST", "/webhooks/slack", content=f"token={secret}&text={secret}", headers=FORM)
            self.ask("GET", "/oauth/authorize", params={"client_id": secret, "state": secret, "code": secret})
            names = ("code", "refresh_token", "device_code", "client_secret", "code_verifier")
            form = {"grant_type": "authorization_code", "client_id": CLIENT_ID, **dict.fromkeys(names, secret)}
            self.ask("POST", "/oauth/token", data=form)
            self.ask("POST", "/oauth/token", data={**form, "client_id": secret})
            self.ask("POST", "/oauth/revoke", data={"token": secret + "x"})
            headers, body = request_of("tools/call", {"name": "svc_list_freezes", "arguments": {"cursor": secret}})
            self.ask("POST", "/mcp", secret, content=body, headers=headers)

    def _mint(self, token: str) -> str:
        return str(self.ask("GET", "/api/auth/token", token)["token"])


@contextmanager
def every_line_kept() -> Iterator[io.BytesIO]:
    """Have all logs of this process written to memory, down to the least severe line."""
    kept, root = io.BytesIO(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", io.TextIOWrapper(kept, write_through=True))
        logs.configure("DEBUG")
        for ours in ("httpx", "httpcore"):
            patch.setattr(logging.getLogger(ours), "disabled", True)  # the client of this test is not the service
        try:
            yield kept
        finally:
            root.handlers[:] = handlers
            root.setLevel(level)


@cache
def key_of_the_app() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pkcs8 = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, pkcs8, serialization.NoEncryption()).decode()


CONFIGURED = (
    "secret_key",
    "secret_key_previous",
    "cursor_secret",
    "cursor_secret_previous",
    "github_app_client_secret",
    "github_webhook_secret",
    "github_webhook_secret_previous",
)
"""Names of secrets in the configuration."""


def config_of(database: str, redis_url: str, **changes: Any) -> Config:
    """Return a configuration whose App is at a code host that never answers."""
    return product_config(
        database,
        redis_url,
        secret_key=SECRET_KEY,
        cursor_secret=CURSORS,
        github_api_url="http://127.0.0.1:1",
        github_app_id=1,
        github_app_slug="change-freeze",
        github_app_private_key=key_of_the_app(),
        github_app_client_id="Iv1.tests",
        github_app_client_secret="what the App says to be itself",
        github_webhook_secret="what signs the webhooks of tests",
        secret_key_previous="what sealed secrets before",
        cursor_secret_previous="what signed cursors before",
        github_webhook_secret_previous="what signed webhooks before",
        slack_client_id=CLIENT_ID_OF_SLACK,
        slack_client_secret=CLIENT_SECRET,
        slack_signing_secret=(SIGNING_SECRET,),
        **changes,
    )


@contextmanager
def without_tables(connection: psycopg.Connection[Any], names: tuple[str, ...]) -> Iterator[None]:
    """Have tables missing."""
    rename = sql.SQL("ALTER TABLE {} RENAME TO {}")
    for name in names:
        connection.execute(rename.format(sql.Identifier(name), sql.Identifier(f"{name}_away")))
    yield
    for name in names:
        connection.execute(rename.format(sql.Identifier(f"{name}_away"), sql.Identifier(name)))


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left of a life: by place, everything that can be read there."""

    secrets: dict[str, str]
    places: dict[str, str]
    statuses: set[int]


@pytest.fixture(scope="module")
def remains(module_database: str, redis_url: str) -> Iterator[Remains]:
    handle = serve(FakeSlack())
    config = config_of(module_database, redis_url, slack_url=handle.base_url)
    with (
        every_line_kept() as lines,
        Redis.from_url(redis_url) as redis,
        psycopg.connect(as_libpq(module_database), autocommit=True) as connection,
        committing(module_database) as session,
    ):
        redis.flushdb()
        with (
            serving(create_app(config, product_parts(access_log=True))) as base_url,
            client_of(base_url) as http,
        ):
            handle.slack.settings.request_url = f"{base_url}/webhooks/slack"
            handle.slack.settings.request_timeout = 60.0
            life = live(Life(http, session), connection, handle.slack)
        for name in CONFIGURED:
            life.keep(name, getattr(config, name))
        life.keep("client secret of Slack", CLIENT_SECRET)
        life.keep("signing secret of Slack", SIGNING_SECRET)
        life.keep("the App's private key", key_of_the_app().splitlines()[9])
        key = session.scalars(select(SigningKey).where(SigningKey.active_from.is_not(None))).one()
        opened = decrypt(config.secret_key.encode(), USE, key.kid, key.encrypted_private_key or b"")
        life.keep("the key that signs session tokens", opened.decode().splitlines()[1])
        places = {
            "the logs": lines.getvalue().decode(),
            "Redis": "\n".join(all_of(redis)),
            "refusals": "\n".join(life.refusals),
            **dumped(connection),
        }
        yield Remains(life.secrets, places, life.statuses)
        redis.flushdb()
    handle.stop()


def live(life: Life, connection: psycopg.Connection[Any], slack: FakeSlack) -> Life:
    """Live, and go wrong in every way."""
    for number, secret in enumerate((PASSWORD, WRONG, SECOND, THIRD)):
        life.keep(f"password {number}", secret)
    token = life.sign_up()
    life.work(token)
    life.let_a_device_in(token)
    life.connect_slack(token, slack)
    of_people = life.sent[:]
    life.connect_a_client(token)
    of_clients = life.sent[len(of_people) :]
    life.go_wrong()
    broken = [(names, of_people) for names in BROKEN] + [(names, of_clients) for names in BROKEN_FOR_CLIENTS]
    for names, requests in broken:
        connection.execute("DELETE FROM throttled_attempts")
        with without_tables(connection, names):
            for method, path, credential, request in requests:
                life.ask(method, path, credential, **request)
    return life


def all_of(redis: Redis) -> Iterator[str]:
    """Yield everything that Redis holds; RQ keeps its jobs compressed."""
    readers: dict[bytes, Callable[[Any], Any]] = {
        b"string": lambda key: [redis.get(key)],
        b"hash": lambda key: [part for pair in redis.hgetall(key).items() for part in pair],
        b"list": lambda key: redis.lrange(key, 0, -1),
        b"set": redis.smembers,
        b"zset": lambda key: redis.zrange(key, 0, -1),
    }
    key: Any
    for key in redis.scan_iter():
        yield key.decode()
        kind: Any = redis.type(key)
        for value in readers[kind](key):
            with suppress(zlib.error):
                value = zlib.decompress(value)  # noqa: PLW2901 - what is compressed is read as what it is
            yield value.decode("latin-1")


def dumped(connection: psycopg.Connection[Any]) -> dict[str, str]:
    """Return every row of every table as text, bytes in hexadecimal."""
    tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    query = sql.SQL("SELECT to_jsonb(t)::text FROM {} t")
    rows = {name: connection.execute(query.format(sql.Identifier(name))).fetchall() for (name,) in tables}
    return {f"table {name}": "\n".join(row for (row,) in found) for name, found in rows.items()}


def shapes(secret: str) -> set[str]:
    """Return how a secret could be written down."""
    raw = secret.encode()
    plain = base64.b64encode(raw).decode().rstrip("=")
    return {secret, json.dumps(secret)[1:-1], raw.hex(), plain, base64.urlsafe_b64encode(raw).decode().rstrip("=")}


@pytest.mark.slow(7)
def test_secrets_are_found_in_no_storage_log_or_response(remains: Remains) -> None:
    found = [
        f"{name} in {place}"
        for place, text in remains.places.items()
        for name, secret in remains.secrets.items()
        if any(shape in text for shape in shapes(secret))
    ]
    assert found == []


def test_searched_places_contain_the_recorded_activity(remains: Remains) -> None:
    assert len(remains.secrets) > 20
    assert {200, 201, 202, 204, 400, 401, 404, 422, 500} <= remains.statuses
    lines = [json.loads(line) for line in remains.places["the logs"].splitlines()]
    assert {line["level"] for line in lines} >= {"debug", "info", "error"}
    assert {line.get("operation") for line in lines} >= {"sign_up", "sign_in", "create_api_key", "device_token"}
    assert {line.get("operation") for line in lines} >= {"mcp", "oauth_token", "oauth_revoke", "decide_authorization"}
    assert "jobs.registry.run" in remains.places["Redis"]
    filled = {place for place, text in remains.places.items() if text}
    clients = ("oauth_clients", "oauth_grants", "oauth_codes", "oauth_refresh_tokens")
    assert {f"table {name}" for name in clients} <= filled
    tables = ("users", "sessions", "mails", "one_time_tokens", "api_keys", "audit_entries", "device_authorizations")
    assert {f"table {name}" for name in (*tables, "idempotency_keys", "signing_keys")} <= filled
    assert ADDRESS in remains.places["table users"]
    assert {line.get("operation") for line in lines} >= {"claim_slack_workspace", "receive_slack_webhook"}
    assert "T0ACME" in remains.places["table slack_connections"]


def test_representation_of_the_process_contains_no_secret(module_database: str, redis_url: str) -> None:
    config = config_of(module_database, redis_url)
    shown = repr(config) + repr(create_app)
    for name in CONFIGURED:
        assert getattr(config, name) not in shown
    assert CLIENT_SECRET not in shown
    assert SIGNING_SECRET not in shown
