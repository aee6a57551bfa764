"""A backlog of entries is sealed at the same cost, however long it is, and by several processes if it takes long."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, create_engine, text

from app.database import WORKER_ROLE, make_engine
from services.audit import hash_chain
from services.audit.hash_chain import MORE_SEALERS, SEALER, seal_entries
from services.core.clock import DatabaseClock
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from tests.harness.blocks import Blocks
from tests.harness.wakeups import RecordedWakeups

ORGANIZATIONS = """
    INSERT INTO organizations (id, name, slug, settings, created_at)
    SELECT 'org_' || n, 'Acme', 'acme-' || n, '{}', now() FROM generate_series(1, 20) n
"""
ENTRIES = """
    INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, details)
    SELECT 'aud_' || lpad(n::text, 26, '0'), 'org_' || 1 + mod(n, 20), now(), 'freeze.started', '{}', 'system', '{}',
           to_jsonb(repeat('x', 600))
    FROM generate_series(%d, %d) n
"""
FEW, MANY = 1_000, 8_000


@pytest.fixture
def connection(module_database: str) -> Iterator[Connection]:
    """Yield a connection to a database with some organisations."""
    engine = create_engine(module_database, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("TRUNCATE organizations, periodic_tasks CASCADE")
        connection.exec_driver_sql(ORGANIZATIONS)
        yield connection
    engine.dispose()


@pytest.fixture
def engine(module_database: str) -> Iterator[Engine]:
    engine = make_engine(module_database, 2, WORKER_ROLE)
    yield engine
    engine.dispose()


@pytest.fixture
def jobs(engine: Engine) -> UnitOfWorkFactory:
    return UnitOfWorkFactory(engine, DatabaseClock(), RecordedWakeups())


def batch(jobs: UnitOfWorkFactory) -> None:
    with jobs.open(SYSTEM_CALLER) as uow:
        waiting = uow.session.scalars(hash_chain._WAITING).all()
        assert hash_chain._seal_batch(uow, dict.fromkeys(waiting, ""))[0] == 100
        uow.session.rollback()


@pytest.mark.check
def test_batch_reads_no_more_when_more_waits(
    connection: Connection, engine: Engine, jobs: UnitOfWorkFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_chain, "BATCH_SIZE", 100)
    blocks = Blocks()
    blocks.watch(engine)
    found = []
    for first, last in ((1, FEW), (FEW + 1, MANY)):
        connection.exec_driver_sql(ENTRIES % (first, last))
        connection.exec_driver_sql("VACUUM ANALYZE")
        found.append(blocks.of(lambda: batch(jobs)))
    few, many = found
    assert many < few * 1.5


def test_backlog_is_left_to_all_sealers_when_the_time_is_over(
    connection: Connection, jobs: UnitOfWorkFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.exec_driver_sql(ENTRIES % (1, 100))
    rest = "INSERT INTO periodic_tasks (name, done_at) SELECT unnest(CAST(:names AS text[])), now()"
    connection.execute(text(rest), {"names": [SEALER, *MORE_SEALERS]})
    requested = text("SELECT name FROM periodic_tasks WHERE due_at <= clock_timestamp()")
    monkeypatch.setattr(hash_chain, "MAX_SECONDS", 0.0)
    assert seal_entries(jobs) == 0
    assert {*connection.scalars(requested)} == {SEALER, *MORE_SEALERS}


def test_backlog_that_is_sealed_requests_no_other_sealer(connection: Connection, jobs: UnitOfWorkFactory) -> None:
    connection.exec_driver_sql(ENTRIES % (1, 100))
    connection.exec_driver_sql(f"INSERT INTO periodic_tasks (name, done_at) VALUES ('{SEALER}', now())")
    assert seal_entries(jobs) == 100
    assert connection.scalar(text("SELECT count(*) FROM periodic_tasks WHERE due_at IS NOT NULL")) == 0
