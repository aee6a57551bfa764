"""Walls: what a statement or a transaction costs, against the size of what is stored; it is to be the same at each.

Each curve has a line for each size, with the time in milliseconds and the blocks of 8 KB that PostgreSQL read. All runs
as the roles of the service, under row-level security. Rows are made by a few statements; GitHub has no part in it.
`SCALE=0.1` makes the sizes smaller.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection, create_engine, text

from app.database import APP_ROLE, WORKER_ROLE, make_engine
from models.installations import begin_full_resync
from rules.access.permissions import Actor
from services.audit.hash_chain import seal_entries
from services.core.clock import DatabaseClock
from services.core.unit_of_work import SYSTEM_CALLER, Caller, Dependencies, UnitOfWorkFactory
from services.freezes import end
from services.freezes.start import NewFreeze, start
from services.freezes.views import view_with_others
from services.maintenance import resync
from services.reconcile.leases import Turn, other_installations_due
from tests.factories.plans import BUSINESS
from tools.bench.servers import cpu_seconds, machine, storage
from tools.bench.stack import scaled

BRANCHES = (1_000, 10_000, 60_000)
ORGANIZATIONS = (10, 100, 1_000)
TARGETS = (1_000, 10_000)
PERIOD = timedelta(days=1)
ENTRIES = (10_000, 100_000, 300_000)
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
_ENTRIES = """
    INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, details)
    SELECT 'aud_' || lpad(n::text, 26, '0'), 'org_' || 1 + mod(n, {organizations}), now(), 'freeze.started',
           '{{"id": "usr_1", "name": "Ada", "type": "user"}}', 'dashboard',
           '{{"id": "frz_1", "name": "Quarter-end close", "type": "freeze"}}', jsonb_build_object('targets', n)
    FROM generate_series({first}, {last}) n;
"""
_DUE = "UPDATE checks SET due_at = now() - interval '1 minute', wanted_generation = 1 WHERE installation_id = 7"
_ENFORCEMENT = """
    INSERT INTO branch_enforcement (branch_id, organization_id) SELECT id, organization_id FROM watched_branches;
"""


@dataclass(slots=True)
class NoWakeups:
    """Workers that are not there."""

    sent: set[str] = field(default_factory=set)

    def send(self, names: set[str]) -> None:
        """Remember the names."""
        self.sent |= names


@dataclass(frozen=True, slots=True)
class World:
    """A database, and units of work as requests and as workers open them."""

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


@contextmanager
def world() -> Iterator[World]:
    """Start PostgreSQL, with nothing in it."""
    with storage() as stores:
        url = stores.database_url
        owner = create_engine(url, isolation_level="AUTOCOMMIT")
        engines = {role: make_engine(url, 4, role) for role in (APP_ROLE, WORKER_ROLE)}
        requests, jobs = (
            UnitOfWorkFactory(engines[role], DatabaseClock(), NoWakeups(), Dependencies()) for role in engines
        )
        with owner.connect() as connection:
            yield World(connection, requests, jobs)
        for engine in (owner, *engines.values()):
            engine.dispose()


def sealing(one: World) -> None:
    """Print how fast a backlog of audit entries is sealed, in the first seconds."""
    print(f"sealing, one run of the task {'entries':>12} {'organisations':>14} {'a second':>10} {'blocks each':>12}")
    for organizations in (1, *ORGANIZATIONS[1:]):
        for entries in map(scaled, ENTRIES):
            one.fill(organizations, 1, _ENTRIES, first=1, last=2_000)
            seal_entries(one.jobs)
            one.add(_ENTRIES, organizations=organizations, first=2_001, last=2_000 + entries)
            sealed, took, blocks = one.cost(lambda: seal_entries(one.jobs))
            rate, each = sealed / took * 1000, blocks / sealed
            print(f"{entries:>41,} {organizations:>14,} {rate:>10,.0f} {each:>12,.1f}")


def rounds(one: World) -> None:
    """Print what a full resync of one organisation costs beside others, and its longest step."""
    print(f"a full resync {'branches':>24} {'steps':>8} {'longest ms':>11} {'blocks a branch':>16}")
    for branches in map(scaled, BRANCHES):
        one.fill(10, branches // 10, _ENFORCEMENT)
        with one.jobs.open(SYSTEM_CALLER) as uow:
            begin_full_resync(uow.session, uow.now)
        steps = [one.cost(partial(resync.take_one, one.jobs, 1, PERIOD)) for _ in range(branches // 10 // resync.STEP)]
        longest, blocks = max(took for _, took, _ in steps), sum(read for _, _, read in steps)
        print(f"{branches:>38,} {len(steps):>8} {longest:>11,.1f} {blocks / len(steps) / resync.STEP:>16,.1f}")


def turns(one: World) -> None:
    """Print what it costs to choose the next installation, of which one has due checks."""

    def choose() -> None:
        with one.jobs.open(SYSTEM_CALLER) as uow:
            assert Turn().next(uow)
            assert not other_installations_due(uow, 7)

    print(f"the next installation {'organisations':>16} {'branches':>10} {'ms':>8} {'blocks':>8}")
    for organizations in map(scaled, ORGANIZATIONS):
        one.fill(organizations, 60, _DUE)
        choose()
        _, took, blocks = one.cost(choose)
        print(f"{organizations:>38,} {organizations * 60:>10,} {took:>8,.1f} {blocks:>8,.0f}")


def freezing(one: World) -> None:
    """Print what a freeze of all branches of an organisation costs, and its lift."""
    print(f"a freeze, and its lift {'targets':>12} {'201 ms':>8} {'CPU ms':>8} {'lift ms':>8} {'CPU ms':>8}")
    for branches in map(scaled, TARGETS):
        one.fill(10, branches, _ENFORCEMENT)
        for organization in ("org_1", "org_2"):  # the first one makes the connection, and prepares
            caller = Caller(organization, Actor("user", "usr_1", "Ada"), "api", BUSINESS)
            begun, started = one.cpu(), time.perf_counter()
            with one.requests.open(caller) as uow:
                wanted = NewFreeze({"type": "organization"}, "Release 4.2 is rolled out", impact_acknowledged=True)
                freeze = start(uow, wanted, max_targets=branches)
                view_with_others(uow, freeze, "already_frozen")
            between, lifted = one.cpu(), time.perf_counter()
            with one.requests.open(caller) as uow:
                view_with_others(uow, end.lift(uow, freeze.id, None), "still_frozen")
            ended, after = one.cpu(), time.perf_counter()
        times = ((lifted - started), between - begun, (after - lifted), ended - between)
        print(f"{branches:>35,}" + "".join(f" {seconds * 1000:>8,.0f}" for seconds in times))


CURVES = (sealing, turns, rounds, freezing)


def main() -> None:
    """Draw all curves."""
    print(machine())
    with world() as one:
        for curve in CURVES:
            curve(one)


if __name__ == "__main__":
    main()
