"""Access to an organisation that a person allows, or a device gets, while the person is removed from it."""

from collections.abc import Callable
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models.identity import DeviceAuthorization
from models.oauth import OAuthGrant
from models.organizations import LoginSession, User
from tests import factories
from tests.conftest import as_libpq
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.device_sign_in.requests import APPROVE, GRANT, oauth_error, signed_in
from tests.handlers.oauth.requests import RESOURCE, Client, decide
from tests.harness.concurrency import Task, eventually

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
        response = http.post("/api/auth/device/code", data={"client_id": NAME, **form})
        assert response.status_code == 200, response.text
        codes: dict[str, str] = response.json()
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
