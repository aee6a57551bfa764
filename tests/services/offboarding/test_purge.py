"""What is left of an organisation 30 days after its deletion: one row with an id, and nothing of any other touched."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy.exc
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from models import Base
from models.organizations import Organization
from services.core.ports import Ports
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.offboarding import purge
from services.offboarding.purge import _purge_batch, purge_deleted, purged_tables
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.concurrency import at_once
from tests.harness.engines import engine_of
from tests.harness.tenant_fixtures import make_tenant_fixture
from tests.harness.wakeups import RecordedWakeups

Rows = dict[str, list[Any]]
PUSH = """
    INSERT INTO webhook_deliveries (delivery_id, event, installation_id, payload, received_at)
    SELECT :name || number, 'push', id, '{}', now() FROM installations, generate_series(1, :number) number
    WHERE organization_id = :id
"""
USAGE = """
    INSERT INTO github_api_usage (installation_id, at, points, content)
    SELECT id, now(), 1, 1 FROM installations WHERE organization_id = :id
"""


def founded(session: Session, name: str) -> Organization:
    """Found an organisation with a row in every table, and its installation's traces."""
    organization = make_tenant_fixture(session, name).organization
    session.execute(text(PUSH), {"name": name, "id": organization.id, "number": 1})
    session.execute(text(USAGE), {"id": organization.id})
    factories.login(session, factories.user(session), organization, support=True, kind="support")
    session.commit()
    return organization


@dataclass(frozen=True, slots=True)
class DeletedTenant:
    """Acme, which was deleted just now, and the sweeper that purges it in time."""

    session: Session
    acme: Organization
    jobs: UnitOfWorkFactory
    clock: MovableClock

    def rows(self, organization: Organization | None = None) -> Rows:
        """Return all rows that name an organisation or its installation, by table; acme's if none is given."""
        self.session.rollback()
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
            found[table.name] = list(self.session.scalars(text(query), {"id": (organization or self.acme).id}))
        return found

    def tables_with_rows(self) -> set[str]:
        return {table for table, rows in self.rows().items() if rows}

    def count(self, query: str) -> int:
        self.session.rollback()
        return int(self.session.scalar(text(f"SELECT count(*) FROM {query}")) or 0)

    def purge_after(self, time: timedelta = timedelta(days=31)) -> bool:
        """Let this time pass, purge once, and return whether more is left to do."""
        self.clock.offset += time
        return purge_deleted(self.jobs)

    def purge_completely(self) -> None:
        """Purge until nothing is left to do."""
        while purge_deleted(self.jobs):
            pass


@pytest.fixture
def deleted(
    session: Session, database: str, clock: MovableClock, wakeups: RecordedWakeups, monkeypatch: pytest.MonkeyPatch
) -> DeletedTenant:
    monkeypatch.setattr(purge, "MAX_SECONDS", 60.0)  # one sweep is enough, however busy the machine
    acme = founded(session, "acme")
    acme.deleted_at = factories.now()
    session.commit()
    jobs = UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, wakeups, Ports())
    return DeletedTenant(session, acme, jobs, clock)


@pytest.fixture
def globex(session: Session) -> Organization:
    return founded(session, "globex")


def test_purge_covers_every_table_of_an_organization(session: Session) -> None:
    every = {table.name for table in Base.metadata.sorted_tables if "organization_id" in table.columns}
    assert {table.name for table in purged_tables()} == every - {"sessions"}


def test_purge_waits_for_thirty_days(deleted: DeletedTenant) -> None:
    before = deleted.rows()
    assert [table for table, rows in before.items() if not rows] == []
    assert not deleted.purge_after(timedelta(days=30) - timedelta(minutes=1))
    assert deleted.rows() == before


def test_purge_erases_all_rows_of_only_that_organization(deleted: DeletedTenant, globex: Organization) -> None:
    others = deleted.rows(globex)
    assert not deleted.purge_after(timedelta(days=30, seconds=1))
    assert deleted.tables_with_rows() == set()
    assert deleted.rows(globex) == others
    assert deleted.count("github_api_usage") == 1
    assert deleted.count("webhook_deliveries") == 1


def test_purge_keeps_id_and_instants_without_the_name(deleted: DeletedTenant) -> None:
    deleted.purge_after()
    deleted.session.expire_all()
    left = deleted.session.get_one(Organization, deleted.acme.id)
    assert (left.name, left.slug, left.settings) == ("", left.id, {})
    assert left.purged_at is not None
    assert left.deleted_at is not None


def test_purge_keeps_accounts_and_sessions_of_users(deleted: DeletedTenant) -> None:
    people = deleted.count("users")
    signed_in = deleted.count("sessions WHERE kind <> 'support'")
    deleted.purge_after()
    assert deleted.count("users") == people
    assert deleted.count("sessions WHERE kind <> 'support'") == signed_in
    assert deleted.count("sessions WHERE kind = 'support'") == 0


def test_purge_is_done_once(deleted: DeletedTenant) -> None:
    deleted.purge_after()
    first = deleted.session.scalar(text("SELECT purged_at FROM organizations"))
    assert not deleted.purge_after(timedelta(days=1))
    deleted.session.rollback()
    assert deleted.session.scalar(text("SELECT purged_at FROM organizations")) == first


def test_no_transaction_of_the_purge_deletes_more_than_a_batch(
    deleted: DeletedTenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge, "BATCH_SIZE", 20)
    deleted.session.execute(text(PUSH), {"name": "more", "id": deleted.acme.id, "number": 50})
    deleted.session.commit()
    batches: list[int] = []

    def add(_connection: object, cursor: Any, statement: str, *_: object) -> None:
        if statement.startswith("DELETE"):
            batches[-1] += cursor.rowcount

    event.listen(deleted.jobs.engine, "begin", lambda _connection: batches.append(0))
    event.listen(deleted.jobs.engine, "after_cursor_execute", add)
    deleted.purge_after()
    assert max(batches) == 20
    assert deleted.count("webhook_deliveries") == 0


class TestBatches:
    def in_small_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(purge, "BATCH_SIZE", 2)
        monkeypatch.setattr(purge, "REFERENCED_BATCH_SIZE", 1)

    @pytest.mark.parametrize("pieces", [1, 9, 17, 29])
    def test_purge_resumes_when_killed(
        self, deleted: DeletedTenant, monkeypatch: pytest.MonkeyPatch, pieces: int
    ) -> None:
        deleted.clock.offset += timedelta(days=31)
        with monkeypatch.context() as patch:
            self.in_small_pieces(patch)
            for _ in range(pieces):
                assert _purge_batch(deleted.jobs)
        deleted.purge_completely()
        assert deleted.tables_with_rows() == set()
        assert deleted.count("organizations WHERE purged_at IS NOT NULL") == 1

    def test_purge_yields_to_other_tasks(self, deleted: DeletedTenant, monkeypatch: pytest.MonkeyPatch) -> None:
        self.in_small_pieces(monkeypatch)
        monkeypatch.setattr(purge, "MAX_SECONDS", 0.0)
        deleted.clock.offset += timedelta(days=31)
        assert all(purge_deleted(deleted.jobs) for _sweep in range(6))

    def test_purge_may_run_on_two_sweepers_at_once(
        self, deleted: DeletedTenant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.in_small_pieces(monkeypatch)
        deleted.clock.offset += timedelta(days=31)
        at_once(deleted.purge_completely, deleted.purge_completely)
        assert deleted.tables_with_rows() == set()


def test_rows_written_during_the_purge_are_erased_in_the_next_sweep(
    deleted: DeletedTenant, caplog: pytest.LogCaptureFixture
) -> None:
    session = deleted.session
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
        assert deleted.purge_after()
        assert "the next sweep deletes it" in caplog.text
    finally:
        session.execute(text("DROP FUNCTION write_meanwhile() CASCADE"))
        session.commit()
    assert not purge_deleted(deleted.jobs)
    assert deleted.tables_with_rows() == set()


def test_audit_of_a_live_organization_cannot_be_erased(deleted: DeletedTenant, globex: Organization) -> None:
    entries = deleted.rows(globex)["audit_entries"]
    assert entries
    with deleted.jobs.open(SYSTEM_CALLER) as uow:
        uow.session.execute(text("DELETE FROM audit_entries"))
    assert deleted.rows(globex)["audit_entries"] == entries
    assert deleted.rows()["audit_entries"] == []
    with deleted.jobs.open(SYSTEM_CALLER) as uow, pytest.raises(sqlalchemy.exc.ProgrammingError):
        uow.session.execute(text("UPDATE audit_entries SET action = 'x'"))
