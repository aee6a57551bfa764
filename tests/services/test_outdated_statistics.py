"""A freeze of many branches is not slow because the statistics say that the tables are empty.

PostgreSQL then expects one row of every table, and a join that it repeats for every row costs the cube of the rows.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Engine, create_engine, select
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE, make_engine
from models.checks import lock_affected, mark_dirty
from models.repositories import Repository
from services.core.clock import DatabaseClock
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.reconcile.leases import Turn, acquire, leased_transaction
from services.reconcile.outcomes import Progress, finish_checks
from services.repositories.repositories import views
from tests.harness.blocks import Blocks
from tests.harness.wakeups import RecordedWakeups

pytestmark = pytest.mark.check

BRANCHES = 200
MAX_BLOCKS = 2 * BRANCHES**2
"""Some statements read each small table once a branch then; a cube would be 100 times as much."""
FREEZE_OF_ALL = f"""
    INSERT INTO organizations (id, name, slug, settings, created_at) VALUES ('org_1', 'Acme', 'acme', '{{}}', now());
    INSERT INTO installations (id, organization_id, account, permissions, created_at)
    VALUES (1, 'org_1', 'acme', '{{}}', now());
    INSERT INTO repositories (id, organization_id, installation_id, github_id, node_id, owner, name, default_branch,
                              private, created_at, synced_at)
    SELECT 'rep_' || n, 'org_1', 1, n, n, 'acme', 'service-' || n, 'main', false, now(), now()
    FROM generate_series(1, {BRANCHES}) n;
    INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at)
    SELECT 'wbr_' || n, 'org_1', 'rep_' || n, 'main', 'change-freeze/main', now() FROM generate_series(1, {BRANCHES}) n;
    INSERT INTO freezes (id, organization_id, reason, scope, source, started_at, exceptions_allowed,
                         impact_acknowledged, created_by)
    VALUES ('frz_1', 'org_1', 'Release', '{{}}', 'manual', now(), true, true, '{{}}');
    INSERT INTO freeze_targets (id, organization_id, freeze_id, branch_id, operation, generation)
    SELECT 'tgt_' || n, 'org_1', 'frz_1', 'wbr_' || n, 'apply', 1 FROM generate_series(1, {BRANCHES}) n;
"""
NOTHING_COUNTED = """
    UPDATE pg_class SET reltuples = 0, relpages = 1 WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
"""
IDS = [f"wbr_{number}" for number in range(1, BRANCHES + 1)]


@pytest.fixture
def blocks() -> Blocks:
    return Blocks()


@pytest.fixture
def owner(own_database: str) -> Iterator[Engine]:
    """Yield an engine of the owner, to a database that was analyzed when it was empty."""
    engine = create_engine(own_database, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(FREEZE_OF_ALL)
        connection.exec_driver_sql(NOTHING_COUNTED)
    yield engine
    engine.dispose()


@pytest.fixture
def jobs(owner: Engine, own_database: str, blocks: Blocks) -> Iterator[UnitOfWorkFactory]:
    engine = blocks.watch(make_engine(own_database, 1, WORKER_ROLE))
    yield UnitOfWorkFactory(engine, DatabaseClock(), RecordedWakeups())
    engine.dispose()


def mark_all(uow: UnitOfWork) -> None:
    lock_affected(uow.session, IDS)
    mark_dirty(uow.session, IDS, uow.now)


def test_branches_are_marked_without_reading_the_cube_of_their_number(jobs: UnitOfWorkFactory, blocks: Blocks) -> None:
    def mark() -> None:
        with jobs.open(SYSTEM_CALLER) as uow:
            mark_all(uow)

    assert blocks.of(mark) < MAX_BLOCKS


def test_repositories_are_shown_without_reading_the_cube_of_their_number(
    jobs: UnitOfWorkFactory, blocks: Blocks
) -> None:
    def show() -> None:
        with jobs.open(replace(SYSTEM_CALLER, organization_id="org_1")) as uow:
            assert len(views(uow, uow.session.scalars(select(Repository)).all())) == BRANCHES

    assert blocks.of(show) < MAX_BLOCKS


def test_targets_are_finished_without_reading_the_cube_of_their_number(
    owner: Engine, jobs: UnitOfWorkFactory, blocks: Blocks
) -> None:
    def finish() -> None:
        with jobs.open(SYSTEM_CALLER) as uow:
            mark_all(uow)
        with jobs.open(SYSTEM_CALLER) as uow:
            batch = acquire(uow, Turn(), limit=BRANCHES)
        assert batch is not None
        assert batch.lease is not None
        blocks.number = 0
        with leased_transaction(jobs, batch.lease, [check.id for check in batch.checks]) as leased:
            finish_checks(leased, [Progress(check, 1, 1) for check in batch.checks])
        with Session(owner) as session:
            session.connection().exec_driver_sql("UPDATE freeze_targets SET state = 'pending'")
            session.commit()

    assert blocks.of(finish) < MAX_BLOCKS
