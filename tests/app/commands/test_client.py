"""The operator's command that blocks a client: what it ends at once, and what the organisations can read about it."""

from collections.abc import Iterator

import httpx
import psycopg
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.commands.client import main
from app.main import create_app
from models.oauth import OAuthClient, OAuthGrant
from models.organizations import Organization
from services.identity.oauth.access_tokens import issue_grant_token
from tests import factories
from tests.handlers.device_sign_in.requests import GRANT, signed_in
from tests.handlers.late_requests import HeldLock
from tests.handlers.oauth.requests import entry, query_of
from tests.harness.concurrency import Task
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.servers import serving
from tests.harness.wakeups import RecordedWakeups

BY = ("--by", "grace@example.com")
WHY = ("--reason", "Its tokens leaked")
UNKNOWN = "https://unknown.example/metadata.json"


@pytest.fixture(scope="module")
def served(shared_database: psycopg.Connection, redis_url: str) -> Iterator[str]:
    config = product_config(
        address_of(shared_database), redis_url, base_url=factories.AUDIENCE, session_issuer=factories.ISSUER
    )
    with serving(create_app(config, product_parts(wakeups=RecordedWakeups()))) as url:
        yield url


@pytest.fixture
def grant(session: Session, acme: Organization) -> OAuthGrant:
    """Return a connection of a member of acme."""
    person = factories.member(session, acme, "admin")
    return factories.connection(session, person, acme)


def token_of(session: Session, grant: OAuthGrant) -> str:
    return issue_grant_token(factories.signer(session), grant, grant.scopes, now=factories.now())


def status(http: httpx.Client, token: str) -> int:
    return entry(http, token).status_code


def test_block_ends_the_connections_of_a_client_at_once(
    session: Session, http: httpx.Client, grant: OAuthGrant, capsys: pytest.CaptureFixture[str]
) -> None:
    globex, person = factories.organization(session, "Globex"), factories.user(session)
    factories.membership(session, globex, person, "member")
    other = factories.connection(session, person, globex)
    tokens = [token_of(session, grant), token_of(session, other)]
    assert [status(http, token) for token in tokens] == [200, 200]
    assert main([grant.client_id, "--block", *BY, *WHY]) == 0
    assert [status(http, token) for token in tokens] == [401, 200]
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"{grant.client_id} is blocked since ")
    assert shown.err.endswith(" 1 connection ended.\n")
    session.expire_all()
    assert (grant.revoked_why, other.revoked_why) == ("client_blocked", None)


def test_block_is_audited_with_operator_and_reason(session: Session, acme: Organization, grant: OAuthGrant) -> None:
    assert main([grant.client_id, "--block", *BY, *WHY]) == 0
    [found] = factories.audit_entries(session)
    assert (found.action, found.organization_id, found.source) == ("connection.revoked", acme.id, "system")
    assert found.actor == {"type": "support", "id": None, "name": "grace@example.com"}
    assert found.target["id"] == grant.id
    assert (found.details["why"], found.details["reason"]) == ("client_blocked", WHY[1])


def test_block_refuses_new_requests_and_waits_for_writes(
    database: str, session: Session, http: httpx.Client, grant: OAuthGrant
) -> None:
    token = token_of(session, grant)
    with HeldLock(database, "oauth_grant", grant.id, shared=True) as write:
        command = Task(lambda: main([grant.client_id, "--block", *BY, *WHY]))
        write.wait_for_waiting(1)
        assert status(http, token) == 401
        assert not command.done()
        write.release()
        assert command.result() == 0


def test_block_ends_what_an_aborted_block_has_left(session: Session, grant: OAuthGrant) -> None:
    session.get_one(OAuthClient, grant.client_id).blocked_at = before = factories.now()
    session.flush()
    assert main([grant.client_id, "--block", *BY, *WHY]) == 0
    session.expire_all()
    assert grant.revoked_why == "client_blocked"
    assert session.get_one(OAuthClient, grant.client_id).blocked_at == before


def test_client_that_is_not_known_can_be_blocked(session: Session, http: httpx.Client) -> None:
    assert main([UNKNOWN, "--block", *BY, *WHY]) == 0
    query = query_of(client_id=UNKNOWN, redirect_uri="https://unknown.example/")
    refused = http.post("/api/auth/oauth/preview", json={"query": query})
    assert "blocked this client" in refused.json()["error"]["message"]


def test_unblock_revives_no_connection(
    session: Session, http: httpx.Client, grant: OAuthGrant, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([grant.client_id, "--block", *BY, *WHY]) == 0
    assert main([grant.client_id, "--unblock"]) == 0
    assert "is not blocked. Open connections: 0." in capsys.readouterr().err
    assert status(http, token_of(session, grant)) == 401
    assert main([grant.client_id, "--unblock"]) == 1
    assert capsys.readouterr().err == f"The client {grant.client_id} is not blocked.\n"


def test_client_command_shows_one_client_or_all_blocked_ones(
    session: Session, grant: OAuthGrant, capsys: pytest.CaptureFixture[str]
) -> None:
    row = session.get_one(OAuthClient, grant.client_id)
    row.document = {"client_name": "Claude \u202e"}
    session.flush()
    assert main([grant.client_id]) == 0
    line = f"{grant.client_id} ('Claude \\u202e') is not blocked. Open connections: 1.\n"
    assert capsys.readouterr().out == line
    assert main([]) == 0
    assert capsys.readouterr().out == ""
    assert main([UNKNOWN, "--block", *BY, *WHY]) == 0
    assert main([]) == 0
    assert capsys.readouterr().out.startswith(f"{UNKNOWN} is blocked since ")


class TestRejections:
    @pytest.mark.parametrize("arguments", [[UNKNOWN], [UNKNOWN, "--unblock"]], ids=str)
    def test_client_command_rejects_an_unknown_client(
        self, session: Session, capsys: pytest.CaptureFixture[str], arguments: list[str]
    ) -> None:
        assert main(arguments) == 1
        assert capsys.readouterr().err == f"The client {UNKNOWN} is unknown: it was never connected.\n"

    def test_block_requires_a_reason_worth_reading(
        self, session: Session, http: httpx.Client, grant: OAuthGrant, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main([grant.client_id, "--block", *BY, "--reason", "  why  "]) == 1
        assert "at least 8 characters" in capsys.readouterr().err
        assert status(http, token_of(session, grant)) == 200


def test_blocked_device_gets_no_connection(session: Session, http: httpx.Client, acme: Organization) -> None:
    """A device has no document: its name is its id."""
    person = factories.member(session, acme, "member")
    caller = signed_in(session, http, person, acme)
    form = {"client_id": "mcp-remote", "resource": f"{factories.AUDIENCE}/mcp"}
    begun = http.post("/api/auth/device/code", data=form).json()
    approval = {"userCode": begun["user_code"], "decision": "approve"}
    assert caller.post("/api/auth/device/approve", approval).status_code == 200
    assert main(["mcp-remote", "--block", *BY, *WHY]) == 0
    given = {"grant_type": GRANT, "device_code": begun["device_code"]}
    refused = http.post("/oauth/token", data={**given, "client_id": "mcp-remote"})
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert session.scalars(select(OAuthGrant)).all() == []
