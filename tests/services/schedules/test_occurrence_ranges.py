"""Occurrences of a range of time are found without walking through all that lie behind it."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import Engine, create_engine, select, text
from sqlalchemy.orm import Session

from app.database import make_engine
from models.schedules import Occurrence
from rules.access.permissions import SYSTEM
from services.core.clock import DatabaseClock
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.schedules.occurrences import first_long, touching
from tests import factories
from tests.harness.wakeups import RecordedWakeups

MANY = text("""
    INSERT INTO occurrences (id, organization_id, schedule_id, starts_at, ends_at)
    SELECT 'occ_' || n, :organization, :schedule, now() - n * interval '1 hour', now() - (n - 0.5) * interval '1 hour'
    FROM generate_series(1, 20000) n
""")


@pytest.fixture(scope="module")
def engine(module_database: str) -> Iterator[Engine]:
    engine = make_engine(module_database, 2)
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def uow(module_database: str, engine: Engine) -> Iterator[UnitOfWork]:
    """Open a unit of an organisation with years of occurrences behind it, one of them a whole year long."""
    superuser = create_engine(module_database)
    with Session(superuser, expire_on_commit=False) as session:
        acme = factories.organization(session)
        schedule = factories.schedule(session, acme)
        session.execute(MANY, {"organization": acme.id, "schedule": schedule.id})
        start = factories.now() - timedelta(days=300, minutes=7)
        factories.occurrence(session, schedule, starts_at=start, ends_at=start + timedelta(days=366))
        session.commit()
    with superuser.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))
    superuser.dispose()
    with UnitOfWorkFactory(engine, DatabaseClock(), RecordedWakeups()).open(Caller(acme.id, SYSTEM, "system")) as uow:
        yield uow


@pytest.mark.check
def test_long_occurrence_that_reaches_into_a_range_is_found_by_index(uow: UnitOfWork) -> None:
    query = first_long([Occurrence.organization_id == uow.organization], uow.now)
    statement = query.compile(uow.session.connection(), compile_kwargs={"literal_binds": True})
    plan = "\n".join(uow.session.scalars(text(f"EXPLAIN {statement}")))
    assert "ix_occurrences_long" in plan, plan


def test_occurrences_touching_a_range_include_long_and_near_ones(uow: UnitOfWork) -> None:
    since = uow.now - timedelta(hours=3)
    found = uow.session.scalars(select(Occurrence).where(*touching(uow, since, uow.now))).all()
    assert sorted(row.id for row in found if row.id.startswith("occ_") and len(row.id) < 10) == [
        "occ_1",
        "occ_2",
        "occ_3",
    ]
    assert len(found) == 4
