"""A database with any number of organisations and branches, filled by a few statements, for curves of cost."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Connection, create_engine, text

from app.commands.units_of_work import NoWakeups
from app.database import APP_ROLE, WORKER_ROLE, make_engine
from services.core.clock import DatabaseClock
from services.core.ports import Ports
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from tools.bench.servers import cpu_seconds, storage

_READ = text("SELECT sum(blks_hit + blks_read) FROM pg_stat_database")
_FLUSH = text("SELECT pg_stat_force_next_flush()")
Result = TypeVar("Result")
_EMPTY = "TRUNCATE organizations, installations CASCADE"
# Each branch is the `main` of a repository of its own.
_WORLD = """
    INSERT INTO organizations (id, name, slug, settings, created_at)
    SELECT 'org_' || o, 'Org ' || o, 'org-' || o, '{{}}', now() FROM generate_series(1, {organizations}) o;
    INSERT INTO installations (id, organization_id, account, permissions, created_at)
    SELECT o, 'org_' || o, 'org-' || o, '{{}}', now() FROM generate_series(1, {organizations}) o;
    INSERT INTO repositories (id, organization_id, installation_id, github_id, node_id, owner, name, default_branch,
                              private, enabled, created_at, synced_at)
    SELECT 'rep_' || o || '_' || b, 'org_' || o, o, o * 1000000 + b, o || '-' || b, 'org-' || o, 'service-' || b,
           'main', true, true, now(), now()
    FROM generate_series(1, {organizations}) o, generate_series(1, {branches}) b;
    INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at)
    SELECT 'wbr_' || o || '_' || b, 'org_' || o, 'rep_' || o || '_' || b, 'main', 'change-freeze/main', now()
    FROM generate_series(1, {organizations}) o, generate_series(1, {branches}) b;
"""


@dataclass(frozen=True, slots=True)
class World:
    """A database, and units of work as requests and as workers open them."""

    url: str
    owner: Connection
    requests: UnitOfWorkFactory
    jobs: UnitOfWorkFactory

    def fill(self, organizations: int, branches: int, *more: str, **sizes: int) -> None:
        """Replace all rows by organisations with so many branches each, and what further statements make."""
        self.add(_EMPTY, _WORLD, *more, organizations=organizations, branches=branches, **sizes)

    def add(self, *statements: str, **sizes: int) -> None:
        """Run statements with these sizes."""
        for statement in statements:
            self.owner.exec_driver_sql(statement.format(**sizes))
        self.owner.exec_driver_sql("VACUUM ANALYZE")

    def cost(self, work: Callable[[], Result]) -> tuple[Result, float, int]:
        """Run something; return its result, its milliseconds, and the blocks that PostgreSQL read meanwhile."""
        before, begun = self._blocks(), time.perf_counter()
        result = work()
        took = time.perf_counter() - begun
        return result, took * 1000, self._blocks() - before

    def cpu(self) -> float:
        """Return the CPU time in seconds that this process and the server processes for requests have taken."""
        with self.requests.open(SYSTEM_CALLER) as uow:
            process = uow.session.scalar(text("SELECT pg_backend_pid()"))
        return time.process_time() + cpu_seconds(int(process or 0))

    def _blocks(self) -> int:
        for units in (self.requests, self.jobs):  # a server process says at times only what it has read
            with units.open(SYSTEM_CALLER) as uow:
                uow.session.execute(_FLUSH)
        return int(self.owner.scalar(_READ) or 0)


def units_of(url: str, role: str) -> UnitOfWorkFactory:
    """Return units of work as the processes of a role open them."""
    return UnitOfWorkFactory(make_engine(url, 4, role), DatabaseClock(), NoWakeups(), Ports())


@contextmanager
def world() -> Iterator[World]:
    """Start PostgreSQL, with nothing in it."""
    with storage() as stores:
        url = stores.database_url
        owner = create_engine(url, isolation_level="AUTOCOMMIT")
        requests, jobs = (units_of(url, role) for role in (APP_ROLE, WORKER_ROLE))
        with owner.connect() as connection:
            yield World(url, connection, requests, jobs)
        for engine in (owner, requests.engine, jobs.engine):
            engine.dispose()
