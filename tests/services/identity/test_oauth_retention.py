"""How long rows of OAuth are kept: while their reuse has to be noticed, and for a while after; the audit stays."""

from datetime import timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from models.audit import AuditEntry
from models.base import Base
from models.oauth import OAuthClient, OAuthCode, OAuthGrant, OAuthRefreshToken
from models.organizations import Organization
from services.core.ports import Ports
from services.core.unit_of_work import Caller, UnitOfWorkFactory
from services.identity.oauth.grants import end_grant
from services.maintenance.retention import purge_expired
from services.offboarding import purge
from services.offboarding.purge import purge_deleted
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups
from tests.services.conftest import ADA

CODE, TOKEN = b"code", b"token"
MOMENT = timedelta(minutes=1)
CODE_LIFETIME, REFRESH_LIFETIME, GRANT_LIFETIME = timedelta(seconds=60), timedelta(days=30), timedelta(days=90)


@pytest.fixture
def jobs(
    database: str, clock: MovableClock, wakeups: RecordedWakeups, monkeypatch: pytest.MonkeyPatch
) -> UnitOfWorkFactory:
    monkeypatch.setattr(purge, "MAX_SECONDS", 60.0)  # one sweep is enough, however busy the machine
    return UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, wakeups, Ports())


@pytest.fixture
def grant(session: Session, acme: Organization) -> OAuthGrant:
    """Return a connection, with a code and a refresh token that have just been used."""
    person = factories.member(session, acme, "member")
    grant = factories.connection(session, person, acme)
    now = factories.now()
    of_grant = {"organization_id": acme.id, "grant_id": grant.id, "used_at": now}
    redirect = {"redirect_uri": "http://localhost/", "challenge": "x"}
    session.add(OAuthCode(code_hash=CODE, expires_at=now + CODE_LIFETIME, **redirect, **of_grant))
    session.add(OAuthRefreshToken(token_hash=TOKEN, issued_at=now, expires_at=now + REFRESH_LIFETIME, **of_grant))
    session.get_one(OAuthClient, grant.client_id).fresh_until = now + timedelta(days=1)
    session.commit()
    return grant


def is_kept(session: Session, row: type[Base], key: object) -> bool:
    session.commit()
    return session.get(row, key, populate_existing=True) is not None


@pytest.mark.parametrize(
    ("row", "key", "age"),
    [
        (OAuthCode, CODE, CODE_LIFETIME + timedelta(days=1)),
        (OAuthRefreshToken, TOKEN, REFRESH_LIFETIME + timedelta(days=1)),
        (OAuthGrant, None, GRANT_LIFETIME + timedelta(days=30)),
    ],
    ids=["code", "refresh token", "grant"],
)
def test_row_of_a_connection_is_kept_until_its_age(
    session: Session,
    jobs: UnitOfWorkFactory,
    clock: MovableClock,
    grant: OAuthGrant,
    row: type[Base],
    key: bytes | None,
    age: timedelta,
) -> None:
    clock.offset += age - MOMENT
    assert purge_expired(jobs)
    assert is_kept(session, row, key or grant.id)
    clock.offset += timedelta(hours=1)
    assert purge_expired(jobs)
    assert not is_kept(session, row, key or grant.id)


def test_purge_of_a_connection_keeps_its_audit_entries(
    session: Session, jobs: UnitOfWorkFactory, clock: MovableClock, acme: Organization, grant: OAuthGrant
) -> None:
    with jobs.open(Caller(acme.id, ADA, "dashboard")) as uow:
        end_grant(uow, uow.session.get_one(OAuthGrant, grant.id), "by_person")
    clock.offset += timedelta(days=1)
    purge_expired(jobs)
    assert is_kept(session, OAuthGrant, grant.id), "one that has ended is kept like the others"
    clock.offset += timedelta(days=120)
    purge_expired(jobs)
    assert not is_kept(session, OAuthGrant, grant.id)
    [entry] = session.scalars(select(AuditEntry).where(AuditEntry.organization_id == acme.id))
    assert (entry.action, entry.target["id"], entry.target["name"]) == (
        "connection.revoked",
        grant.id,
        "Example Client",
    )


def test_purge_removes_clients_without_connections_except_blocked_ones(
    session: Session, jobs: UnitOfWorkFactory, clock: MovableClock, grant: OAuthGrant
) -> None:
    fresh_until = factories.now() + timedelta(days=1)
    session.add(OAuthClient(client_id="https://seen.example/m", document={}, fresh_until=fresh_until))
    session.add(OAuthClient(client_id="device"))
    session.add(OAuthClient(client_id="https://evil.example/m", blocked_at=factories.now()))
    session.commit()

    def clients() -> list[str]:
        session.commit()
        return sorted(session.scalars(select(OAuthClient.client_id)))

    purge_expired(jobs)
    assert clients() == sorted([grant.client_id, "https://evil.example/m", "https://seen.example/m"])
    clock.offset += timedelta(days=31, hours=1)
    purge_expired(jobs)
    assert clients() == sorted([grant.client_id, "https://evil.example/m"]), "the first has a connection"
    clock.offset += timedelta(days=90)
    purge_expired(jobs)
    assert clients() == ["https://evil.example/m"]


def test_deleted_organization_leaves_only_what_its_clients_publish(
    session: Session, jobs: UnitOfWorkFactory, clock: MovableClock, acme: Organization, grant: OAuthGrant
) -> None:
    session.get_one(Organization, acme.id).deleted_at = factories.now()
    session.commit()
    clock.offset += timedelta(days=30, hours=1)
    assert not purge_deleted(jobs)
    for row, key in ((OAuthGrant, grant.id), (OAuthRefreshToken, TOKEN), (OAuthCode, CODE)):
        assert not is_kept(session, row, key)
    assert is_kept(session, OAuthClient, grant.client_id)
    clock.offset += timedelta(days=1)
    purge_expired(jobs)
    assert not is_kept(session, OAuthClient, grant.client_id)
