"""Workers serve the installations that have due checks in turn, however many have none."""

from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine, text

from app.database import WORKER_ROLE, make_engine
from jobs.registry import JOBS
from services.core.clock import DatabaseClock
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.core.work_queue import WorkQueue
from services.enforcement.frozen_branches import ORGANIZATION_STOPS
from services.enforcement.probe_queue import PROBES_OF_STOPS
from services.reconcile.leases import CHECKS, Turn, acquire, other_installations_due
from tests.harness.blocks import Blocks
from tests.harness.wakeups import RecordedWakeups

SCENE = """
    INSERT INTO organizations (id, name, slug, settings, created_at)
    SELECT 'org_' || n, 'Acme', 'acme-' || n, '{}', now() FROM generate_series(1, 500) n;
    INSERT INTO installations (id, organization_id, account, permissions, created_at)
    SELECT n, 'org_' || n, 'acme-' || n, '{}', now() FROM generate_series(1, 500) n ORDER BY n DESC;
    INSERT INTO repositories (id, organization_id, installation_id, github_id, node_id, owner, name, default_branch,
                              private, created_at, synced_at)
    SELECT 'rep_' || n, 'org_' || n, n, n, n, 'acme-' || n, 'web', 'main', false, now(), now()
    FROM generate_series(1, 500) n;
    INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at)
    SELECT 'wbr_' || n, 'org_' || r, 'rep_' || r, 'b' || n, 'change-freeze/b' || n, now()
    FROM generate_series(1, 5000) n, LATERAL (SELECT 1 + mod(n, 500) AS r) AS one;
"""
NOTHING_DUE = """
    INSERT INTO branch_enforcement (branch_id, organization_id) SELECT id, organization_id FROM watched_branches;
    INSERT INTO branch_tips (branch_id, organization_id, sha, seen_at)
    SELECT id, organization_id, repeat('a', 40), now() FROM watched_branches;
    UPDATE checks SET due_at = NULL;
"""
ALL_DUE = "UPDATE checks SET due_at = now() - interval '1 minute', wanted_generation = 1"
ALL_RULES_DUE = """
    UPDATE branch_enforcement SET due_at = now() - interval '1 minute';
    INSERT INTO frozen_branch_rulesets (repository_id, organization_id) SELECT id, organization_id FROM repositories;
"""
QUEUES = [*(job.work for job in JOBS.values() if isinstance(job.work, WorkQueue)), ORGANIZATION_STOPS, PROBES_OF_STOPS]
ENOUGH_FOR_A_KEPT_PLAN = 12
DUE = f"{ALL_DUE} WHERE installation_id IN (7, 300, 450)"


def change(database: str, statements: str) -> None:
    """Change rows, and have PostgreSQL count them."""
    owner = create_engine(database, isolation_level="AUTOCOMMIT")
    with owner.connect() as connection:
        connection.exec_driver_sql(statements)
        connection.exec_driver_sql("VACUUM ANALYZE")
    owner.dispose()


@pytest.fixture
def blocks() -> Blocks:
    return Blocks()


@pytest.fixture
def jobs(own_database: str, blocks: Blocks) -> Iterator[UnitOfWorkFactory]:
    """Units of a worker, in a database with 500 installations of which three have due checks."""
    change(own_database, SCENE + DUE)
    engine = blocks.watch(make_engine(own_database, 1, WORKER_ROLE))
    yield UnitOfWorkFactory(engine, DatabaseClock(), RecordedWakeups())
    engine.dispose()


@pytest.mark.parametrize("other_plan", [None, "SET LOCAL enable_nestloop = off"], ids=["usual plan", "other plan"])
def test_installations_with_due_checks_are_served_in_turn(jobs: UnitOfWorkFactory, other_plan: str | None) -> None:
    """Where statistics make PostgreSQL plan it in another way, too: else one could wait for all others for ever."""
    turn, served = Turn(), []
    for _ in range(7):
        with jobs.open(SYSTEM_CALLER) as uow:
            if other_plan:
                uow.session.execute(text(other_plan))
            batch = acquire(uow, turn, limit=4)  # each has ten
            served.append(batch and batch.installation_id)
    assert served == [7, 300, 450, 7, 300, 450, 7]


@pytest.mark.check
def test_next_installation_costs_the_same_however_many_have_nothing_due(
    jobs: UnitOfWorkFactory, blocks: Blocks
) -> None:
    def choose() -> None:
        with jobs.open(SYSTEM_CALLER, read_only=True) as uow:
            assert other_installations_due(uow, 7)

    def take_turns() -> None:
        with jobs.open(SYSTEM_CALLER) as uow:
            assert Turn(7).next(uow)

    assert blocks.of(choose) < 50
    assert blocks.of(take_turns) < 50


def blocks_of_looking(queue: WorkQueue, jobs: UnitOfWorkFactory, blocks: Blocks) -> int:
    """Return how many blocks it takes to see whether work is due, once PostgreSQL keeps a plan."""

    def look() -> None:
        with jobs.open(SYSTEM_CALLER, read_only=True) as uow:
            queue.has_work(uow)

    for _ in range(ENOUGH_FOR_A_KEPT_PLAN):
        look()
    return blocks.of(look)


@pytest.mark.check
def test_seeing_that_nothing_is_due_costs_the_same_however_many_branches_there_are(
    jobs: UnitOfWorkFactory, own_database: str, blocks: Blocks
) -> None:
    change(own_database, NOTHING_DUE)
    read = [(queue.kind, blocks_of_looking(queue, jobs, blocks)) for queue in QUEUES]
    assert [one for one in read if one[1] >= 50] == []


@pytest.mark.check
def test_seeing_that_checks_are_due_costs_the_same_however_many_are(
    jobs: UnitOfWorkFactory, own_database: str, blocks: Blocks
) -> None:
    change(own_database, ALL_DUE)
    assert blocks_of_looking(CHECKS, jobs, blocks) < 50


@pytest.mark.check
def test_seeing_that_no_stop_awaits_its_reading_costs_the_same_however_many_rules_are_due(
    jobs: UnitOfWorkFactory, own_database: str, blocks: Blocks
) -> None:
    change(own_database, NOTHING_DUE + ALL_RULES_DUE)

    def choose() -> None:
        with jobs.open(SYSTEM_CALLER, read_only=True) as uow:
            assert PROBES_OF_STOPS.first(uow) is None

    assert blocks_of_looking(PROBES_OF_STOPS, jobs, blocks) < 50
    for _ in range(ENOUGH_FOR_A_KEPT_PLAN):
        choose()
    assert blocks.of(choose) < 50
