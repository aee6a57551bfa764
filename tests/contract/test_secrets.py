"""Secrets that people and programs are given are stored, logged and shown nowhere (I10).

A `Scenario` is given every kind of secret over HTTP, while every log line of the process is kept, down to DEBUG. Then
each secret is searched in the logs, in everything that Redis holds (jobs too), in every refusal, and in every row of
every table.
"""

import base64
import io
import json
import logging
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import psycopg
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from psycopg import sql
from redis import Redis
from sqlalchemy import select

from app import logs
from app.config import Config
from app.main import create_app
from models.organizations import SigningKey
from services.core.encryption import decrypt
from services.identity.signing_keys import USE
from tests.conftest import as_libpq
from tests.contract.secret_requests import ADDRESS, SECOND, THIRD, WRONG, Scenario
from tests.harness.passwords import PASSWORD
from tests.harness.product import product_config, product_parts
from tests.harness.servers import client_of, serving
from tests.harness.sessions import committing
from tools.fake_slack import FakeSlack, serve
from tools.fake_slack.settings import CLIENT_ID as CLIENT_ID_OF_SLACK
from tools.fake_slack.settings import CLIENT_SECRET, SIGNING_SECRET

CURSORS = "what signs the cursors of tests"
MISSING = (
    ("sessions",),
    ("calendar_feeds", "device_authorizations", "one_time_tokens", "slack_connections", "webhook_endpoints"),
    ("api_key_secrets", "mails", "slack_links"),
    ("throttled_attempts",),
)
"""Tables that are missing while all requests of people, devices and Slack are sent again: these fail and are logged.

Of the tables that are missing together, no request needs two.
"""
MISSING_FOR_CLIENTS = (
    ("oauth_clients",),
    ("oauth_grants",),
    ("oauth_codes",),
    ("oauth_refresh_tokens",),
    ("freezes",),
    ("audit_entries",),
)
"""The same for the requests of the MCP client."""


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
    """Return the App's private key in PEM."""
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
    """Return a configuration whose App is at a GitHub that refuses connections."""
    return product_config(
        database,
        redis_url,
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
    """Give tables other names until the end of the block."""
    rename = sql.SQL("ALTER TABLE {} RENAME TO {}")
    for name in names:
        connection.execute(rename.format(sql.Identifier(name), sql.Identifier(f"{name}_away")))
    yield
    for name in names:
        connection.execute(rename.format(sql.Identifier(f"{name}_away"), sql.Identifier(name)))


@dataclass(frozen=True, slots=True)
class Search:
    """What is searched, and where."""

    secrets: dict[str, str]
    """By name."""
    places: dict[str, str]
    """Everything that can be read in a place, by its name."""
    statuses: set[int]
    """The statuses of all answers."""


@pytest.fixture(scope="module")
def search(module_database: str, redis_url: str) -> Iterator[Search]:
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
            scenario = Scenario(http, session)
            play(scenario, connection, handle.slack)
        for name in CONFIGURED:
            scenario.keep(name, getattr(config, name))
        scenario.keep("client secret of Slack", CLIENT_SECRET)
        scenario.keep("signing secret of Slack", SIGNING_SECRET)
        scenario.keep("the App's private key", key_of_the_app().splitlines()[9])
        key = session.scalars(select(SigningKey).where(SigningKey.active_from.is_not(None))).one()
        opened = decrypt(config.secret_key.encode(), USE, key.kid, key.encrypted_private_key or b"")
        scenario.keep("the key that signs session tokens", opened.decode().splitlines()[1])
        places = {
            "the logs": lines.getvalue().decode(),
            "Redis": "\n".join(all_of(redis)),
            "refusals": "\n".join(scenario.refusals),
            **dumped(connection),
        }
        yield Search(scenario.secrets, places, scenario.statuses)
        redis.flushdb()
    handle.stop()


def play(scenario: Scenario, connection: psycopg.Connection[Any], slack: FakeSlack) -> None:
    """Send every request: as it should be, with secrets in wrong places, and while tables are missing."""
    for number, secret in enumerate((PASSWORD, WRONG, SECOND, THIRD)):
        scenario.keep(f"password {number}", secret)
    token = scenario.sign_up()
    scenario.set_up_organization(token)
    scenario.sign_in_device(token)
    scenario.connect_slack(token, slack)
    of_people = scenario.sent[:]
    scenario.connect_client(token)
    of_clients = scenario.sent[len(of_people) :]
    scenario.misuse_secrets()
    missing = [(names, of_people) for names in MISSING] + [(names, of_clients) for names in MISSING_FOR_CLIENTS]
    for names, requests in missing:
        connection.execute("DELETE FROM throttled_attempts")
        with without_tables(connection, names):
            for method, path, credential, request in requests:
                scenario.ask(method, path, credential, **request)


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
def test_secrets_are_found_in_no_storage_log_or_response(search: Search) -> None:
    found = [
        f"{name} in {place}"
        for place, text in search.places.items()
        for name, secret in search.secrets.items()
        if any(shape in text for shape in shapes(secret))
    ]
    assert found == []


def test_searched_places_contain_the_recorded_activity(search: Search) -> None:
    assert len(search.secrets) > 20
    assert {200, 201, 202, 204, 400, 401, 404, 422, 500} <= search.statuses
    lines = [json.loads(line) for line in search.places["the logs"].splitlines()]
    assert {line["level"] for line in lines} >= {"debug", "info", "error"}
    assert {line.get("operation") for line in lines} >= {"sign_up", "sign_in", "create_api_key", "device_token"}
    assert {line.get("operation") for line in lines} >= {"mcp", "oauth_token", "oauth_revoke", "decide_authorization"}
    assert "jobs.registry.run" in search.places["Redis"]
    filled = {place for place, text in search.places.items() if text}
    clients = ("oauth_clients", "oauth_grants", "oauth_codes", "oauth_refresh_tokens")
    assert {f"table {name}" for name in clients} <= filled
    tables = ("users", "sessions", "mails", "one_time_tokens", "api_keys", "audit_entries", "device_authorizations")
    assert {f"table {name}" for name in (*tables, "idempotency_keys", "signing_keys")} <= filled
    assert ADDRESS in search.places["table users"]
    assert {line.get("operation") for line in lines} >= {"claim_slack_workspace", "receive_slack_webhook"}
    assert "T0ACME" in search.places["table slack_connections"]


def test_representation_of_the_configuration_contains_no_secret(module_database: str, redis_url: str) -> None:
    config = config_of(module_database, redis_url)
    secrets = [getattr(config, name) for name in CONFIGURED]
    shown = repr(config)
    assert repr(config.github_app_slug) in shown
    for secret in (*secrets, CLIENT_SECRET, SIGNING_SECRET, key_of_the_app().splitlines()[9]):
        assert secret not in shown
