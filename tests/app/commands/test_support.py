"""The operator's command: a session that reads one organisation, and changes nothing."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import jwt
import psycopg
import pytest
from sqlalchemy.orm import Session

from app.commands.support import main
from app.main import create_app
from models.audit import AuditEntry
from models.organizations import LoginSession, Organization, SigningKey, User
from tests import factories
from tests.factories import SECRET_KEY
from tests.harness.clock import MovableClock
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.servers import serving
from tests.harness.wakeups import RecordedWakeups

BY = ("--by", "grace@example.com")
WHY = ("--reason", "Ticket 4711: a freeze that stays")


@pytest.fixture(scope="module")
def clock_of_module() -> MovableClock:
    return MovableClock()


@pytest.fixture
def clock(clock_of_module: MovableClock) -> Iterator[MovableClock]:
    yield clock_of_module
    clock_of_module.reset()


@pytest.fixture(scope="module")
def served(shared_database: psycopg.Connection, redis_url: str, clock_of_module: MovableClock) -> Iterator[str]:
    config = product_config(address_of(shared_database), redis_url)
    with serving(create_app(config, product_parts(clock=clock_of_module, wakeups=RecordedWakeups()))) as url:
        yield url


@pytest.fixture
def session(session: Session) -> Session:
    sign_as_ever(session)
    return session


def sign_as_ever(session: Session) -> None:
    """Have tokens signed by the key of all tests: the application reads unknown ones every few seconds only."""
    factories.signer(session)
    session.query(SigningKey).update({"active_from": factories.now() - timedelta(days=1)})


@pytest.fixture
def begin(capsys: pytest.CaptureFixture[str]) -> Any:
    """Begin a support session, and return its token."""

    def run(organization: str, *more: str) -> str:
        assert main([organization, *BY, *WHY, *more]) == 0
        return capsys.readouterr().out.strip()

    return run


def status_and_code(
    http: httpx.Client, token: str, method: str = "GET", path: str = "/v1/freezes", **request: Any
) -> Any:
    answer = http.request(method, path, headers={"Authorization": f"Bearer {token}"}, **request)
    return answer.status_code, answer.json()["error"]["code"] if answer.status_code >= 400 else None


def entries(session: Session) -> list[AuditEntry]:
    return session.query(AuditEntry).order_by(AuditEntry.at, AuditEntry.id).all()


def test_support_session_reads_only_its_organization(
    session: Session, acme: Organization, http: httpx.Client, begin: Any
) -> None:
    factories.freeze(session, acme, reason="Quarter-end close")
    factories.freeze(session, factories.organization(session, "Globex"), reason="Nobody of acme sees this")
    answer = http.get("/v1/freezes", headers={"Authorization": f"Bearer {begin(acme.slug)}"})
    assert [row["reason"] for row in answer.json()["data"]] == ["Quarter-end close"]


def test_support_command_accepts_the_id_of_an_organization(acme: Organization, http: httpx.Client, begin: Any) -> None:
    assert status_and_code(http, begin(acme.id)) == (200, None)


def test_support_session_cannot_write(acme: Organization, session: Session, http: httpx.Client, begin: Any) -> None:
    token = begin(acme.slug)
    key = factories.api_key(session, acme).row
    for method, path in (
        ("POST", "/v1/freezes"),
        ("POST", "/v1/api-keys"),
        ("POST", f"/v1/api-keys/{key.id}/rotate"),
        ("DELETE", f"/v1/api-keys/{key.id}"),
        ("POST", "/v1/enforcement/setup"),
    ):
        assert status_and_code(http, token, method, path) == (403, "impersonation_read_only")


def test_support_token_is_marked_as_support(acme: Organization, begin: Any) -> None:
    claims = jwt.decode(begin(acme.slug), options={"verify_signature": False})
    assert claims["act"] == {"sub": "support"}
    assert claims["org"] == acme.id
    assert claims["exp"] - claims["iat"] == 3600


@pytest.mark.parametrize(("minutes", "more"), [(60, ()), (5, ("--minutes", "5")), (480, ("--minutes", "480"))])
def test_support_session_expires(
    acme: Organization, http: httpx.Client, begin: Any, clock: MovableClock, minutes: int, more: tuple[str, ...]
) -> None:
    token = begin(acme.slug, *more)
    ends_at = datetime.fromtimestamp(jwt.decode(token, options={"verify_signature": False})["exp"], UTC)
    assert abs(ends_at - factories.now() - timedelta(minutes=minutes)) < timedelta(minutes=1)
    clock.at = ends_at - timedelta(seconds=1)
    assert status_and_code(http, token) == (200, None)
    clock.at = ends_at
    assert status_and_code(http, token) == (401, "token_expired")


def test_support_session_is_audited_with_operator_and_reason(session: Session, acme: Organization, begin: Any) -> None:
    token = begin(acme.slug)
    (entry,) = entries(session)
    assert (entry.action, entry.organization_id, entry.source) == ("support.session_started", acme.id, "system")
    assert (entry.actor["type"], entry.actor["name"]) == ("support", "grace@example.com")
    assert entry.details["reason"] == WHY[1]
    assert entry.target["id"] == jwt.decode(token, options={"verify_signature": False})["sid"]
    assert token not in str(entry.details)


def test_support_command_ends_all_open_sessions(
    session: Session, acme: Organization, http: httpx.Client, begin: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    other = begin(factories.organization(session, "Globex").slug)
    tokens = [begin(acme.slug), begin(acme.slug)]
    assert main([acme.slug, *BY, "--end"]) == 0
    assert capsys.readouterr().err == "2 open support sessions ended.\n"
    assert [status_and_code(http, token) for token in tokens] == [(401, "invalid_token")] * 2
    assert status_and_code(http, other) == (200, None)
    begin(acme.slug)
    capsys.readouterr()
    assert main([acme.slug, *BY, "--end"]) == 0
    assert capsys.readouterr().err == "1 open support session ended.\n"
    assert [entry.action for entry in entries(session)].count("support.session_ended") == 3
    assert main([acme.slug, *BY, "--end"]) == 0
    assert capsys.readouterr().err == "0 open support sessions ended.\n"


def test_operator_is_a_single_user_without_sign_in(session: Session, acme: Organization, begin: Any) -> None:
    begin(acme.slug)
    begin(acme.slug)
    operator = session.query(User).one()
    assert (operator.name, operator.password_hash, operator.email_verified_at) == ("grace@example.com", None, None)
    assert "@" not in operator.email
    assert {row.user_id for row in session.query(LoginSession)} == {operator.id}
    assert {row.token_hash for row in session.query(LoginSession)} == {None}


def test_support_command_prints_only_the_token_to_stdout(
    acme: Organization, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([acme.slug, *BY, *WHY]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("\n") == 1
    assert shown.out.startswith("eyJ")
    assert shown.out.strip() not in shown.err
    assert f"grace@example.com may read Acme ({acme.id}) until " in shown.err


class TestRejections:
    def test_support_session_is_rejected_for_an_unknown_organization(
        self, session: Session, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["nothing", *BY, *WHY]) == 1
        shown = capsys.readouterr()
        assert (shown.out, shown.err) == (
            "",
            "Organisation 'nothing' not found. Use its id (org_…) or its slug.\n",
        )

    def test_support_session_is_rejected_for_a_deleted_organization(
        self, session: Session, acme: Organization, capsys: pytest.CaptureFixture[str]
    ) -> None:
        acme.deleted_at = factories.now()
        session.flush()
        assert main([acme.slug, *BY, *WHY]) == 1
        assert "has been deleted" in capsys.readouterr().err
        assert session.query(LoginSession).all() == []

    def test_support_session_is_rejected_without_a_reason(
        self, session: Session, acme: Organization, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main([acme.slug, *BY, "--reason", "  why  "]) == 1
        assert "at least 8 characters" in capsys.readouterr().err
        assert entries(session) == []

    def test_support_command_without_configuration_ends_with_3(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.delenv("DATABASE_URL", raising=False)
        assert main(["acme", *BY, *WHY]) == 3
        assert "DATABASE_URL is required" in capsys.readouterr().err

    def test_support_command_ends_with_3_when_the_database_does_not_answer(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
        monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1")
        monkeypatch.setenv("SECRET_KEY", SECRET_KEY)
        assert main(["acme", *BY, *WHY]) == 3
        assert "The database cannot be used" in capsys.readouterr().err
