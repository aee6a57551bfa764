"""Replacement of secrets: before, while both are configured, and after the previous one was removed."""

import hashlib
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import LargeBinary, func, select
from sqlalchemy.orm import Session

from app.commands import doctor
from app.commands.rotate_secrets import main
from app.config import load_config
from app.main import create_app
from integrations.slack.client import SlackTokens
from models.base import Base
from models.identity import Mail
from models.organizations import Organization, SigningKey
from models.outgoing_webhooks import WebhookEndpoint
from rules.ids import new_id
from services.core.encryption import decrypt, encrypt
from services.identity import signing_keys
from services.mail import outbox
from services.maintenance.secret_rotation import COLUMNS
from services.outgoing_webhooks import endpoints
from services.slack.tokens import encrypt_tokens
from tests import factories
from tests.harness.accounts import Account, account, ask, code
from tests.harness.app_key import AppKey
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.servers import client_of, serving

OLD, NEW = factories.SECRET_KEY, "the key that replaces the one of tests"
OLD_CURSOR, NEW_CURSOR = "the previous secret of cursors", "the new secret of cursors"
NEW_WEBHOOK = {"name": "Status page", "url": "https://hooks.example.com/in", "events": ["freeze.*"]}
REPEATED = {"Idempotency-Key": "sent-twice"}


@pytest.fixture
def during(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Set the environment of the overlap."""
    monkeypatch.setenv("SECRET_KEY", NEW)
    monkeypatch.setenv("SECRET_KEY_PREVIOUS", OLD)
    return monkeypatch


@pytest.fixture
def everything_encrypted(session: Session, acme: Organization) -> None:
    """Store a value in each column that is encrypted, under the previous key."""
    secret = OLD.encode()
    factories.signer(session)
    webhook = factories.webhook(session, acme)
    webhook.encrypted_previous_secret = webhook.encrypted_secret
    connection = factories.slack_connection(session, acme)
    connection.encrypted_tokens = encrypt_tokens(secret, connection.id, SlackTokens("xoxb-1"))
    session.add(
        Mail(
            id="mal_1",
            recipient="eve@example.com",
            template="change_email",
            encrypted_values=encrypt(secret, outbox.USE, outbox.associated_data("mal_1", "eve@example.com"), b"{}"),
            created_at=factories.now(),
            attempts=0,
        )
    )
    session.flush()


def secrets_of_doctor() -> list[str]:
    """Return the lines of the doctor about secrets."""
    return [f"{each.state} {each.text}" for each in doctor.check_secrets(load_config())]


def test_every_encrypted_column_is_rotated() -> None:
    stored = {
        (table.name, column.name)
        for table in Base.metadata.sorted_tables
        for column in table.columns
        if isinstance(column.type, LargeBinary) and column.name.startswith("encrypted_")
    }
    assert {(each.value.class_.__tablename__, each.value.key) for each in COLUMNS} == stored


@pytest.mark.usefixtures("everything_encrypted")
def test_rotation_encrypts_every_column_under_the_new_key(
    session: Session, during: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [line] = secrets_of_doctor()
    assert line == (
        "fix SECRET_KEY_PREVIOUS is needed for 1 signing keys, 1 queued mails, 1 tokens of Slack, 1 webhook secrets, "
        "1 previous webhook secrets, the key of used trials: run `python -m app rotate-secrets`"
    )
    assert main([]) == 0
    assert "signing keys: 1 encrypted again, 0 had the new key\n" in capsys.readouterr().out
    assert secrets_of_doctor() == ["ok nothing needs SECRET_KEY_PREVIOUS: remove it"]
    assert main([]) == 0, "it can be repeated"
    assert "signing keys: 0 encrypted again, 1 had the new key\n" in capsys.readouterr().out
    during.delenv("SECRET_KEY_PREVIOUS")
    assert secrets_of_doctor() == ["ok everything that is encrypted can be read"]
    session.expire_all()
    for column in COLUMNS:
        for value, *row in session.execute(select(column.value, *column.row)):
            decrypt(NEW.encode(), column.use, " ".join(row), value)


@pytest.mark.usefixtures("everything_encrypted")
def test_rotation_goes_through_any_number_of_batches(session: Session, during: pytest.MonkeyPatch) -> None:
    during.setattr("services.maintenance.secret_rotation.BATCH_SIZE", 2)
    for number in range(4):
        kid = f"kid_{number}"
        encrypted = encrypt(OLD.encode(), signing_keys.USE, kid, b"private")
        key = SigningKey(kid=kid, algorithm="ES256", public_key="", encrypted_private_key=encrypted)
        key.created_at = factories.now()
        session.add(key)
    session.flush()
    assert main([]) == 0
    assert secrets_of_doctor() == ["ok nothing needs SECRET_KEY_PREVIOUS: remove it"]


@pytest.mark.usefixtures("everything_encrypted")
def test_previous_key_that_was_removed_too_early_is_named_and_helps_again(
    session: Session, during: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    during.delenv("SECRET_KEY_PREVIOUS")
    [line] = secrets_of_doctor()
    assert line.startswith("fix 1 signing keys, 1 queued mails, ")
    assert line.endswith(
        " can be read with no key: set SECRET_KEY_PREVIOUS to the key of before, and run `python -m app rotate-secrets`"
    )
    during.setenv("SECRET_KEY_PREVIOUS", "a key that was never used")
    assert main([]) == 1
    assert "tokens of Slack: 1 can be read with neither key\n" in capsys.readouterr().err
    during.setenv("SECRET_KEY_PREVIOUS", OLD)
    assert main([]) == 0
    assert secrets_of_doctor() == ["ok nothing needs SECRET_KEY_PREVIOUS: remove it"]


def test_rotation_is_rejected_when_there_is_no_previous_key(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == 1
    assert capsys.readouterr().err == "SECRET_KEY_PREVIOUS is not set: there is no key to replace.\n"


def signature(secret: str) -> str:
    return "sha256=" + hmac.new(secret.encode(), b"{}", hashlib.sha256).hexdigest()


def deliver(http: httpx.Client, secret: str) -> int:
    """Send a webhook as GitHub does, and return the status of the answer."""
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "ping",
        "X-GitHub-Delivery": new_id("dlv"),
        "X-Hub-Signature-256": signature(secret),
    }
    return http.post("/webhooks/github", content=b"{}", headers=headers).status_code


@pytest.mark.check
def test_service_goes_on_while_its_secrets_are_replaced(
    session: Session,
    shared_database: psycopg.Connection,
    redis_url: str,
    app_key: AppKey,
    during: pytest.MonkeyPatch,
) -> None:
    acme, globex = (factories.organization(session, name, plan="free") for name in ("Acme", "Globex"))
    configure = partial(
        product_config, address_of(shared_database), redis_url, github_app_id=1, github_app_private_key=app_key.private
    )

    @contextmanager
    def service(**changes: str | None) -> Iterator[httpx.Client]:
        with serving(create_app(configure(**changes), product_parts())) as url, client_of(url) as http:
            yield http

    def call(method: str, path: str, **request: Any) -> httpx.Response:
        return ask(http, method, path, jwt, **request)

    with service(cursor_secret=OLD_CURSOR, github_webhook_secret="old", secret_key=OLD) as http:
        owner = account(session, http, acme, globex)
        token = owner.sign_in()
        ask(http, "POST", "/api/auth/org/set-active", token, json={"organizationId": acme.id})
        jwt = owner.jwt(token)
        made = call("POST", "/v1/webhooks", json=NEW_WEBHOOK, headers=REPEATED)
        assert made.status_code == 201, made.text
        for name in ("one", "two", "three"):
            factories.api_key(session, acme, name=name)
        first = call("GET", "/v1/api-keys", params={"limit": 1}).json()["nextCursor"]
        assert call("POST", "/v1/billing/trial").status_code == 200
        assert [deliver(http, each) for each in ("old", "new")] == [202, 401]
    both = {"secret_key_previous": OLD, "cursor_secret_previous": OLD_CURSOR, "github_webhook_secret_previous": "old"}
    after = {"secret_key": NEW, "cursor_secret": NEW_CURSOR, "github_webhook_secret": "new"}
    with service(**after, **both) as http:
        assert call("GET", "/v1/api-keys", params={"cursor": first}).status_code == 200
        repeated = call("POST", "/v1/webhooks", json=NEW_WEBHOOK, headers=REPEATED)
        assert repeated.json() == made.json(), "a stored response that shows a secret is repeated"
        second = call("GET", "/v1/api-keys", params={"limit": 1}).json()["nextCursor"]
        assert [deliver(http, each) for each in ("old", "new")] == [202, 202]
    assert main([]) == 0
    with service(**after) as http:
        assert call("GET", "/v1/api-keys", params={"cursor": second}).status_code == 200, "the JWT is still verified"
        refused = call("GET", "/v1/api-keys", params={"cursor": first})
        assert code(refused) == (400, "invalid_cursor")
        assert [deliver(http, each) for each in ("old", "new")] == [401, 202]
        ask(http, "POST", "/api/auth/org/set-active", token, json={"organizationId": globex.id})
        jwt = Account(http, owner.user).jwt(token)
        assert code(call("POST", "/v1/billing/trial")) == (409, "trial_already_used")
    assert session.scalar(select(func.count()).select_from(SigningKey)) == 1, "the signing key is that of before"
    [webhook] = session.scalars(select(WebhookEndpoint).execution_options(populate_existing=True))
    stored = decrypt(NEW.encode(), endpoints.USE, webhook.id, webhook.encrypted_secret or b"")
    assert stored.decode() == made.json()["secret"]
