"""What is left of an organisation 30 days after its deletion: one row with an id, and nothing of any other touched."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy.exc
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from models import Base
from models.installations import Installation
from models.organizations import Organization, User
from services.core.unit_of_work import SYSTEM_CALLER, Dependencies, UnitOfWorkFactory
from services.offboarding import purge
from services.offboarding.purge import _purge_batch, purge_deleted, purged_tables
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.concurrency import at_once
from tests.harness.engines import engine_of
from tests.harness.tenant_fixtures import TenantFixture, make_tenant_fixture
from tests.harness.wakeups import RecordedWakeups

Rows = dict[str, list[Any]]


@pytest.fixture
def jobs(
    database: str, clock: MovableClock, wakeups: RecordedWakeups, monkeypatch: pytest.MonkeyPatch
) -> UnitOfWorkFactory:
    monkeypatch.setattr(purge, "MAX_SECONDS", 60.0)  # one sweep is enough, however busy the machine
    return UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, wakeups, Dependencies())


def founded(session: Session, name: str) -> TenantFixture:
    """Found an organisation with a row in every table, and its installation's traces."""
    made = make_tenant_fixture(session, name)
    installation = session.query(Installation).filter_by(organization_id=made.organization.id).one()
    values = {"id": installation.id, "delivery": f"delivery of {name}"}
    session.execute(
        text(
            "INSERT INTO webhook_deliveries (delivery_id, event, installation_id, payload, received_at) "
            "VALUES (:delivery, 'push', :id, '{}', now())"
        ),
        values,
    )
    session.execute(
        text("INSERT INTO github_api_usage (installation_id, at, points, content) VALUES (:id, now(), 1, 1)"), values
    )
    factories.login(session, factories.user(session), made.organization, support=True, kind="support")
    session.commit()
    return made


@pytest.fixture
def acme(session: Session) -> Organization:
    """Return acme, deleted just now."""
    organization = founded(session, "acme").organization
    organization.deleted_at = factories.now()
    session.commit()
    return organization


@pytest.fixture
def globex(session: Session) -> Organization:
    return founded(session, "globex").organization


def rows_of(session: Session, organization: Organization) -> Rows:
    """Return all rows that name an organisation or its installation, by table."""
    session.rollback()
    installations = "SELECT id FROM installations WHERE organization_id = :id"
    found: Rows = {}
    for table in Base.metadata.sorted_tables:
        if "organization_id" in table.columns:
            whose = "organization_id = :id"
        elif "installation_id" in table.columns:
            whose = f"installation_id IN ({installations})"
        else:
            continue
        query = f"SELECT t::text FROM {table.name} t WHERE {whose} ORDER BY 1"
        found[table.name] = list(session.scalars(text(query), {"id": organization.id}))
    return found


def count(session: Session, query: str) -> int:
    session.rollback()
    return int(session.scalar(text(query)) or 0)


def test_purge_covers_every_table_of_an_organization(session: Session, globex: Organization) -> None:
    every = {table.name for table in Base.metadata.sorted_tables if "organization_id" in table.columns}
    assert {table.name for table in purged_tables()} == every - {"sessions"}
    assert [table for table, rows in rows_of(session, globex).items() if not rows] == []


def test_purge_waits_for_thirty_days(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, clock: MovableClock
) -> None:
    before = rows_of(session, acme)
    clock.offset += timedelta(days=30) - timedelta(minutes=1)
    assert not purge_deleted(jobs)
    assert rows_of(session, acme) == before


def test_purge_erases_all_rows_of_only_that_organization(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, globex: Organization, clock: MovableClock
) -> None:
    others = rows_of(session, globex)
    clock.offset += timedelta(days=30, seconds=1)
    assert not purge_deleted(jobs)
    assert {table for table, rows in rows_of(session, acme).items() if rows} == set()
    assert rows_of(session, globex) == others
    assert count(session, "SELECT count(*) FROM github_api_usage") == 1
    assert count(session, "SELECT count(*) FROM webhook_deliveries") == 1


def test_purge_keeps_id_and_instants_without_the_name(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, clock: MovableClock
) -> None:
    clock.offset += timedelta(days=31)
    purge_deleted(jobs)
    session.expire_all()
    left = session.get_one(Organization, acme.id)
    assert (left.name, left.slug, left.settings) == ("", acme.id, {})
    assert left.purged_at is not None
    assert left.deleted_at is not None


def test_purge_keeps_accounts_and_sessions_of_users(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, clock: MovableClock
) -> None:
    people = session.query(User).count()
    signed_in = count(session, "SELECT count(*) FROM sessions WHERE kind <> 'support'")
    clock.offset += timedelta(days=31)
    purge_deleted(jobs)
    assert session.query(User).count() == people
    assert count(session, "SELECT count(*) FROM sessions WHERE kind <> 'support'") == signed_in
    assert count(session, "SELECT count(*) FROM sessions WHERE kind = 'support'") == 0


def test_purge_is_done_once(jobs: UnitOfWorkFactory, session: Session, acme: Organization, clock: MovableClock) -> None:
    clock.offset += timedelta(days=31)
    purge_deleted(jobs)
    first = session.scalar(text("SELECT purged_at FROM organizations"))
    clock.offset += timedelta(days=1)
    assert not purge_deleted(jobs)
    session.rollback()
    assert session.scalar(text("SELECT purged_at FROM organizations")) == first


def test_no_transaction_of_the_purge_deletes_more_than_a_batch(
    jobs: UnitOfWorkFactory,
    session: Session,
    acme: Organization,
    clock: MovableClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(purge, "BATCH_SIZE", 20)
    session.execute(
        text(
            "INSERT INTO webhook_deliveries (delivery_id, event, installation_id, payload, received_at) "
            "SELECT n, 'push', i.id, '{}', now() FROM installations i, generate_series(1, 50) n "
            "WHERE i.organization_id = :id"
        ),
        {"id": acme.id},
    )
    session.commit()
    deleted: list[int] = []

    def add(_connection: object, cursor: Any, statement: str, *_: object) -> None:
        if statement.startswith("DELETE"):
            deleted[-1] += cursor.rowcount

    event.listen(jobs.engine, "begin", lambda _connection: deleted.append(0))
    event.listen(jobs.engine, "after_cursor_execute", add)
    clock.offset += timedelta(days=31)
    purge_deleted(jobs)
    assert max(deleted) == 20
    assert count(session, "SELECT count(*) FROM webhook_deliveries") == 0


class TestBatches:
    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(purge, "BATCH_SIZE", 2)
        monkeypatch.setattr(purge, "REFERENCED_BATCH_SIZE", 1)

    @pytest.mark.parametrize("pieces", range(1, 30, 4))
    def test_purge_resumes_when_killed(
        self, jobs: UnitOfWorkFactory, session: Session, acme: Organization, clock: MovableClock, pieces: int
    ) -> None:
        clock.offset += timedelta(days=31)
        for _ in range(pieces):
            _purge_batch(jobs)
        while purge_deleted(jobs):
            pass
        assert {table for table, rows in rows_of(session, acme).items() if rows} == set()
        assert count(session, "SELECT count(*) FROM organizations WHERE purged_at IS NOT NULL") == 1

    def test_purge_yields_to_other_tasks(
        self,
        jobs: UnitOfWorkFactory,
        session: Session,
        acme: Organization,
        clock: MovableClock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(purge, "MAX_SECONDS", 0.0)
        clock.offset += timedelta(days=31)
        sweeps = 0
        while purge_deleted(jobs):
            sweeps += 1
        assert sweeps > 5

    def test_purge_may_run_on_two_sweepers_at_once(
        self, jobs: UnitOfWorkFactory, session: Session, acme: Organization, clock: MovableClock
    ) -> None:
        clock.offset += timedelta(days=31)

        def work() -> None:
            while purge_deleted(jobs):
                pass

        at_once(work, work)
        assert {table for table, rows in rows_of(session, acme).items() if rows} == set()


def test_rows_written_during_the_purge_are_erased_in_the_next_sweep(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, clock: MovableClock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.offset += timedelta(days=31)
    session.execute(
        text(
            "CREATE FUNCTION write_meanwhile() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN "
            "INSERT INTO pull_requests SELECT 'pul_late', organization_id, id, 99, '', '', '', 'main', 'x', 'open', 9, "
            "now(), now() FROM repositories WHERE id = OLD.id; RETURN OLD; END $$;"
            "CREATE TRIGGER meanwhile BEFORE DELETE ON repositories FOR EACH ROW EXECUTE FUNCTION write_meanwhile()"
        )
    )
    session.commit()
    try:
        assert purge_deleted(jobs)
        assert "the next sweep deletes it" in caplog.text
    finally:
        session.execute(text("DROP FUNCTION write_meanwhile() CASCADE"))
        session.commit()
    assert not purge_deleted(jobs)
    assert {table for table, rows in rows_of(session, acme).items() if rows} == set()


def test_audit_of_a_live_organization_cannot_be_erased(
    jobs: UnitOfWorkFactory, session: Session, acme: Organization, globex: Organization
) -> None:
    with jobs.open(SYSTEM_CALLER) as uow:
        uow.session.execute(text("DELETE FROM audit_entries"))
    assert len(rows_of(session, globex)["audit_entries"]) == 1
    assert rows_of(session, acme)["audit_entries"] == []
    with jobs.open(SYSTEM_CALLER) as uow, pytest.raises(sqlalchemy.exc.ProgrammingError):
        uow.session.execute(text("UPDATE audit_entries SET action = 'x'"))
