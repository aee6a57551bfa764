"""The end of a connection and requests that have begun: what was answered as ended has no effect afterwards."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.commands.units_of_work import NoWakeups
from app.database import IDENTITY_ROLE
from app.edge import request_context
from models.audit import AuditEntry
from models.freezes import Freeze
from models.identity import DeviceAuthorization
from models.oauth import OAuthGrant
from models.organizations import LoginSession, User
from services.core.clock import DatabaseClock
from services.core.unit_of_work import UnitOfWorkFactory
from services.identity.oauth.blocking import block
from tests import factories
from tests.conftest import as_libpq
from tests.handlers.callers import EVERYTHING, Caller, Tenant, answered, refusal
from tests.handlers.device_sign_in.requests import APPROVE, GRANT, oauth_error, one_time_token, signed_in
from tests.handlers.late_requests import HeldLock, SlowRequest, hammer, ok
from tests.handlers.oauth.requests import CLIENT_ID, RESOURCE, Client, decide, entry, tool
from tests.harness.concurrency import Task, eventually
from tests.harness.engines import engine_of
from tools.mcp_requests import request_of

FREEZE = {"name": "svc_start_freeze", "arguments": EVERYTHING}
ENDS = ("person", "administrator", "removal", "client", "password", "reuse", "block")


def freezes(session: Session) -> int:
    session.expire_all()
    return session.scalar(select(func.count()).select_from(Freeze)) or 0


def live_grants(session: Session) -> int:
    session.expire_all()
    return session.scalar(select(func.count()).where(OAuthGrant.revoked_at.is_(None))) or 0


class Connected:
    """A client that Ada has connected, and all ways to end its connection."""

    def __init__(
        self, database: str, session: Session, client: Client, person: Caller, ada: User, acme: Tenant
    ) -> None:
        self.database, self.client, self.person, self.ada, self.acme = database, client, person, ada, acme
        self.code = httpx.URL(decide(person, acme.id).json()["location"]).params["code"]
        self.tokens: dict[str, Any] = client.redeem(self.code).json()
        self.caller = Caller(client.http, self.tokens["access_token"])
        [connection] = person.get("/api/auth/connections").json()["data"]
        self.id = connection["id"]
        self.administrator, self.owner = acme.person("admin"), acme.person("owner")
        self.mailed = one_time_token(session, "reset_password", ada.id)

    def end(self, how: str) -> httpx.Response:
        ways: dict[str, Callable[[], httpx.Response]] = {
            "person": lambda: self.person.delete(f"/api/auth/connections/{self.id}"),
            "administrator": lambda: self.administrator.delete(f"/v1/connections/{self.id}"),
            "removal": lambda: self.owner.delete(f"/v1/members/{self.ada.id}"),
            "client": lambda: self.client.revoke(self.tokens["refresh_token"]),
            "password": self._reset_password,
            "reuse": self._use_the_code_again,
            "block": self._block,
        }
        return ways[how]()

    def begin(self, method: str = "tools/call", params: Any = FREEZE) -> SlowRequest:
        headers, body = request_of(method, params)
        return SlowRequest(self.caller, "/mcp", body, headers)

    def _reset_password(self) -> httpx.Response:
        chosen = {"token": self.mailed, "password": "seven green bicycles"}
        return self.client.http.post("/api/auth/reset-password", json=chosen)

    def _use_the_code_again(self) -> httpx.Response:
        refused = self.client.redeem(self.code)
        assert refused.json()["error"] == "invalid_grant"
        return httpx.Response(200)

    def _block(self) -> httpx.Response:
        engine = engine_of(self.database, IDENTITY_ROLE)
        factory = UnitOfWorkFactory(engine, DatabaseClock(), NoWakeups())
        block(factory, CLIENT_ID, by="grace@example.com", reason="Its tokens leaked")
        return httpx.Response(200)


@pytest.fixture
def connected(database: str, session: Session, client: Client, person: Caller, ada: User, acme: Tenant) -> Connected:
    factories.watched(session, acme.organization)
    return Connected(database, session, client, person, ada, acme)


@pytest.fixture(params=["soon", "late"])
def begun(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have every body arrive soon after its headers, or late: then the credential is checked again before anything."""
    seconds = 0.0 if request.param == "late" else 600.0
    monkeypatch.setattr(request_context, "LATE_BODY_SECONDS", seconds)
    found: str = request.param
    return found


class TestRequestsThatHaveBegun:
    @pytest.mark.parametrize("how", ENDS)
    def test_connection_ended_before_the_body_makes_no_freeze(
        self, session: Session, connected: Connected, begun: str, how: str
    ) -> None:
        request = connected.begin()
        ok(connected.end(how))
        status, content = request.response()
        if begun == "late":
            assert (status, content["error"]["code"]) == (401, "invalid_token")
        else:
            assert content["result"]["isError"]
            assert json.loads(content["result"]["content"][0]["text"])["error"]["code"] == "invalid_token"
        assert freezes(session) == 0

    @pytest.mark.parametrize("params", [None, {"name": "svc_list_freezes", "arguments": {}}], ids=["list", "call"])
    @pytest.mark.parametrize("how", ["person", "removal"])
    def test_connection_ended_before_a_late_body_reads_nothing(
        self, connected: Connected, monkeypatch: pytest.MonkeyPatch, how: str, params: Any
    ) -> None:
        monkeypatch.setattr(request_context, "LATE_BODY_SECONDS", 0.0)
        request = connected.begin("tools/call" if params else "tools/list", params or {})
        ok(connected.end(how))
        assert request.finish() == (401, "invalid_token")

    def test_role_lowered_before_the_body_makes_no_freeze(self, session: Session, connected: Connected) -> None:
        request = connected.begin()
        ok(connected.owner.patch(f"/v1/members/{connected.ada.id}", {"role": "viewer"}))
        _, content = request.response()
        code = json.loads(content["result"]["content"][0]["text"])["error"]["code"]
        assert code == "insufficient_permission"
        assert freezes(session) == 0

    def test_connection_that_is_open_makes_a_freeze_with_a_late_body(
        self, session: Session, connected: Connected, begun: str
    ) -> None:
        status, content = connected.begin().response()
        assert (status, content["result"]["isError"]) == (200, False), (begun, content)
        assert freezes(session) == 1


class TestConcurrentEnd:
    """Requests of a client while its connection is ended: none has an effect after the end was answered."""

    @pytest.mark.parametrize("how", ["person", "administrator", "removal", "client", "block"])
    def test_client_makes_no_freeze_after_the_end_of_its_connection(
        self, session: Session, connected: Connected, how: str
    ) -> None:
        counts: list[int] = []

        def end() -> httpx.Response:
            response = connected.end(how)
            counts.append(freezes(session))
            return response

        def write() -> int:
            headers, body = request_of("tools/call", FREEZE)
            response = connected.caller.send("POST", "/mcp", content=body, headers=headers)
            if response.status_code == 200 and response.json()["result"]["isError"]:
                text = response.json()["result"]["content"][0]["text"]
                assert json.loads(text)["error"]["code"] == "invalid_token"
                return 401
            return response.status_code

        assert hammer(write, end) == {200, 401}
        assert freezes(session) == counts[0] > 0

    def test_tokens_renewed_during_the_end_of_a_connection_do_not_work(self, connected: Connected) -> None:
        renewed: list[str] = []

        def renew() -> int:
            response = connected.client.refresh(connected.tokens["refresh_token"])
            if response.status_code == 200:
                renewed.append(response.json()["access_token"])
            return response.status_code

        assert hammer(renew, lambda: connected.end("person")) == {200, 400}
        assert {entry(connected.client.http, token).status_code for token in renewed} == {401}

    def test_approvals_during_a_removal_leave_no_connection(
        self, session: Session, client: Client, person: Caller, ada: User, acme: Tenant
    ) -> None:
        owner = acme.person("owner")

        def approve() -> int:
            return decide(person, acme.id).status_code

        statuses = hammer(approve, lambda: owner.delete(f"/v1/members/{ada.id}"))
        assert {200} < statuses <= {200, 401, 404}, "401 if the session acted in the organisation"
        assert live_grants(session) == 0

    @pytest.mark.parametrize(("end", "refusal"), [("block", 400), ("password", 401)])
    def test_approvals_during_a_block_or_a_new_password_leave_no_connection(
        self, session: Session, connected: Connected, person: Caller, acme: Tenant, end: str, refusal: int
    ) -> None:
        def approve() -> int:
            return decide(person, acme.id).status_code

        assert hammer(approve, lambda: connected.end(end)) == {200, refusal}
        assert live_grants(session) == 0


def test_connection_ended_in_several_ways_at_once_ends_once(
    database: str, session: Session, connected: Connected
) -> None:
    with HeldLock(database, "oauth_grant", connected.id, shared=True) as write:
        ends = []
        for number, how in enumerate(("person", "client", "reuse"), start=1):
            ends.append(Task(partial(connected.end, how)))
            write.wait_for_waiting(number)
        write.release()
        assert [end.result().status_code for end in ends] == [204, 200, 200]
    reasons = session.scalars(select(AuditEntry.details).where(AuditEntry.action == "connection.revoked")).all()
    assert [reason["why"] for reason in reasons] == ["by_person"]


def test_connections_that_ended_stay_so_when_the_person_joins_again(session: Session, connected: Connected) -> None:
    ok(connected.end("removal"))
    factories.membership(session, connected.acme.organization, connected.ada, "admin")
    assert entry(connected.client.http, connected.tokens["access_token"]).status_code == 401
    assert connected.client.refresh(connected.tokens["refresh_token"]).json()["error"] == "invalid_grant"
    fresh = connected.client.connect(connected.person, connected.acme.id)
    assert tool(connected.client.http, fresh["access_token"], "svc_list_freezes").code is None


NAME = "freeze-cli"
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"
Removed = Callable[[Callable[[], httpx.Response]], httpx.Response]


@pytest.fixture
def while_removed(database: str, acme: Tenant, ada: User) -> Removed:
    """Send a request while Ada is being removed from acme, and return its response."""

    def send(request: Callable[[], httpx.Response]) -> httpx.Response:
        key = (acme.id, ada.id)
        with (
            psycopg.connect(as_libpq(database)) as removal,
            psycopg.connect(as_libpq(database), autocommit=True) as watch,
        ):
            removal.execute("DELETE FROM memberships WHERE organization_id = %s AND user_id = %s", key)
            answered = Task(request)
            eventually(lambda: answered.done() or watch.execute(WAITING).fetchone() != (0,))
        return answered.result()

    return send


@pytest.fixture
def person(session: Session, http: httpx.Client, ada: User, globex: Tenant) -> Caller:
    """Return Ada, who acts in another organisation."""
    factories.membership(session, globex.organization, ada, "admin")
    return signed_in(session, http, ada, globex.organization)


@pytest.fixture
def begin(http: httpx.Client, redis: Any) -> Callable[..., dict[str, str]]:
    """Start a device, and return its codes."""

    def start(**form: str) -> dict[str, str]:
        codes: dict[str, str] = answered(http.post("/api/auth/device/code", data={"client_id": NAME, **form}))
        return codes

    return start


def approve(person: Caller, codes: dict[str, str], organization_id: str) -> httpx.Response:
    body = {"userCode": codes["user_code"], "decision": "approve", "organizationId": organization_id}
    return person.post(APPROVE, body)


@pytest.mark.parametrize("form", [{}, {"scope": "freeze:read", "resource": RESOURCE}], ids=["session", "connection"])
def test_device_gets_no_access_when_its_person_is_being_removed(
    person: Caller, acme: Tenant, begin: Callable[..., dict[str, str]], while_removed: Removed, form: dict[str, str]
) -> None:
    codes = begin(**form)
    assert approve(person, codes, acme.id).status_code == 200
    poll = {"grant_type": GRANT, "device_code": codes["device_code"], "client_id": NAME}
    assert oauth_error(while_removed(lambda: person.http.post("/oauth/token", data=poll))) == "access_denied"
    assert acme.session.scalar(select(func.count()).select_from(OAuthGrant)) == 0
    assert acme.session.scalar(select(func.count()).where(LoginSession.kind == "device")) == 0


def test_device_is_not_approved_for_an_organization_being_left(
    person: Caller, acme: Tenant, begin: Callable[..., dict[str, str]], while_removed: Removed
) -> None:
    codes = begin()
    refusal(while_removed(lambda: approve(person, codes, acme.id)), 404, "not_found")
    assert acme.session.scalars(select(DeviceAuthorization.approved)).one() is None


def test_client_is_not_connected_to_an_organization_being_left(
    client: Client, person: Caller, acme: Tenant, while_removed: Removed
) -> None:
    refusal(while_removed(lambda: decide(person, acme.id)), 404, "not_found")
    assert acme.session.scalar(select(func.count()).select_from(OAuthGrant)) == 0


def test_organization_being_left_is_not_selected(
    person: Caller, acme: Tenant, globex: Tenant, while_removed: Removed
) -> None:
    choice = {"organizationId": acme.id}
    refusal(while_removed(lambda: person.post("/api/auth/org/set-active", choice)), 404, "not_found")
    assert acme.session.scalars(select(LoginSession.organization_id)).one() == globex.id
