"""Database rights: audit entries cannot be changed or removed, and only the sealer can seal."""

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.orm import Session

from models.organizations import Organization
from services.audit.hash_chain import seal_entries
from services.core.unit_of_work import UnitOfWorkFactory
from tests.services.audit.conftest import Record


class TestRights:
    def test_recorded_entries_cannot_be_changed_by_any_role(
        self, session: Session, jobs: UnitOfWorkFactory, record: Record
    ) -> None:
        record()
        seal_entries(jobs)
        for statement in (
            "UPDATE audit_entries SET action = 'freeze.lifted'",
            "UPDATE audit_entries SET at = at",
            "UPDATE audit_seals SET hash = ''",
            "UPDATE audit_removals SET sequence = 9",
            "INSERT INTO audit_removals SELECT organization_id, 1, hash, sealed_at, hash, '', now() FROM audit_seals",
            "UPDATE audit_seals SET sequence = sequence + 1",
            "TRUNCATE audit_entries, audit_seals",
            "ALTER TABLE audit_entries DISABLE TRIGGER await_seal",
            "DROP TRIGGER await_seal ON audit_entries",
        ):
            for role in ("app", "worker", "identity"):
                refuses(session, role, statement)

    @pytest.mark.parametrize("role", ["app", "identity"])
    @pytest.mark.parametrize(
        "statement", ["DELETE FROM audit_entries", "DELETE FROM audit_seals", "DELETE FROM audit_unsealed"]
    )
    def test_audit_can_be_erased_only_by_jobs(self, session: Session, role: str, statement: str) -> None:
        refuses(session, role, statement)

    @pytest.mark.parametrize("table", ["audit_entries", "audit_seals"])
    def test_jobs_cannot_erase_the_audit_of_a_live_organization(
        self, worker_engine: Engine, jobs: UnitOfWorkFactory, record: Record, table: str
    ) -> None:
        record()
        seal_entries(jobs)
        with worker_engine.begin() as connection:
            assert connection.execute(text(f"DELETE FROM {table}")).rowcount == 0

    def test_jobs_can_erase_exported_entries_alone(
        self, worker_engine: Engine, session: Session, jobs: UnitOfWorkFactory, acme: Organization, record: Record
    ) -> None:
        for _ in range(3):
            record()
        seal_entries(jobs)
        session.execute(
            text("INSERT INTO audit_removals VALUES (:id, 2, '', now(), '', 'grace', now())"), {"id": acme.id}
        )
        session.commit()
        with worker_engine.begin() as connection:
            assert connection.execute(text("DELETE FROM audit_entries")).rowcount == 2
            assert connection.execute(text("DELETE FROM audit_seals")).rowcount == 2
            assert connection.execute(text("DELETE FROM audit_removals")).rowcount == 0

    @pytest.mark.parametrize("role", ["app", "identity"])
    def test_seals_can_be_written_only_by_jobs(self, session: Session, role: str) -> None:
        statement = (
            "INSERT INTO audit_seals (organization_id, sequence, entry_id, hash, previous_hash, sealed_at) "
            "VALUES ('org', 1, 'aud', '', '', now())"
        )
        refuses(session, role, statement)

    def test_entry_cannot_be_kept_from_its_seal_by_its_writer(self, session: Session, engine: Engine) -> None:
        refuses(session, "app", "INSERT INTO audit_unsealed VALUES ('aud', 'org')")
        refuses(session, "app", "SET session_replication_role = replica")


def refuses(session: Session, role: str, statement: str) -> None:
    """Check that a role lacks the right to do something."""
    session.execute(text(f"SET LOCAL ROLE change_freeze_{role}"))
    with pytest.raises(ProgrammingError, match=r"permission denied|must be owner"):
        session.execute(text(statement))
    session.rollback()
