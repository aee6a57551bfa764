"""Walls: what a statement or a transaction costs, against the size of what is stored; it is to be the same at each.

Each curve has a line for each size, with the time in milliseconds and the blocks of 8 KB that PostgreSQL read. All runs
as the roles of the service, under row-level security. Rows are made by a few statements; GitHub has no part in it.
`SCALE=0.1` makes the sizes smaller.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

from sqlalchemy import Connection, text

from app.commands.units_of_work import NoWakeups
from app.database import APP_ROLE, WORKER_ROLE, make_engine
from jobs.registry import jobs_with_work
from models.installations import begin_full_resync
from rules.access.permissions import Actor
from services.audit.hash_chain import seal_entries
from services.core.clock import DatabaseClock
from services.core.ports import Ports
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWorkFactory
from services.freezes import end
from services.freezes.start import NewFreeze, start
from services.freezes.views import view_with_others
from services.maintenance import resync
from services.reconcile.leases import Turn, other_installations_due
from services.schedules.occurrence_start import start_windows
from tests.factories.plans import BUSINESS
from tools.bench.servers import cpu_seconds, storage
from tools.bench.stack import Result, scaled

BRANCHES = (1_000, 10_000, 60_000)
ORGANIZATIONS = (10, 100, 1_000)
TARGETS = (1_000, 10_000)
PERIOD = timedelta(days=1)
ENTRIES = (10_000, 100_000, 300_000)
WORKERS = 2
KEPT_AFTER = 12
"""Runs of a statement after which PostgreSQL keeps its plan."""
_ENTRIES = """
    INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, details)
    SELECT 'aud_' || lpad(n::text, 26, '0'), 'org_' || 1 + mod(n, {organizations}), now(), 'freeze.started',
           '{{"id": "usr_1", "name": "Ada", "type": "user"}}', 'dashboard',
           '{{"id": "frz_1", "name": "Quarter-end close", "type": "freeze"}}', jsonb_build_object('targets', n)
    FROM generate_series({first}, {last}) n;
"""
_DUE = "UPDATE checks SET due_at = now() - interval '1 minute', wanted_generation = 1 WHERE installation_id = 1"
_ENFORCEMENT = """
    INSERT INTO branch_enforcement (branch_id, organization_id) SELECT id, organization_id FROM watched_branches;
"""
_WINDOWS = """
    INSERT INTO schedules (id, organization_id, name, scope, timezone, recurrence, wall_clock_window, reason,
                           exceptions_allowed, enabled, allow_overlap, source, created_by, created_at, updated_at)
    SELECT 'sch_' || o, 'org_' || o, 'Nights', '{{"type": "organization"}}', 'UTC', '{{}}', '{{}}', 'Release window',
           true, true, false, 'manual', '{{}}', now(), now()
    FROM generate_series(1, {organizations}) o;
    INSERT INTO occurrences (id, organization_id, schedule_id, starts_at, ends_at)
    SELECT 'occ_' || lpad(o::text, 26, '0'), 'org_' || o, 'sch_' || o, now(), now() + interval '1 hour'
    FROM generate_series(1, {organizations}) o;
"""
_READ = text("SELECT sum(blks_hit + blks_read) FROM pg_stat_database")
_FLUSH = text("SELECT pg_stat_force_next_flush()")
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
        requests, jobs = (units_of(url, role) for role in (APP_ROLE, WORKER_ROLE))
        with stores.connection() as owner:
            yield World(url, owner, requests, jobs)
        for units in (requests, jobs):
            units.engine.dispose()


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
    """Print what a full resync of an organisation costs, and its longest step."""
    print(f"a full resync {'branches':>24} {'steps':>8} {'longest ms':>11} {'blocks a branch':>16}")
    for branches in map(scaled, BRANCHES):
        one.fill(1, branches, _ENFORCEMENT)
        with one.jobs.open(SYSTEM_CALLER) as uow:
            begin_full_resync(uow.session, uow.now)
        number = max(1, branches // resync.STEP)
        steps = [one.cost(partial(resync.take_one, one.jobs, 1, PERIOD)) for _ in range(number)]
        longest, blocks = max(took for _, took, _ in steps), sum(read for _, _, read in steps)
        print(f"{branches:>38,} {len(steps):>8} {longest:>11,.1f} {blocks / len(steps) / resync.STEP:>16,.1f}")


def turns(one: World) -> None:
    """Print what it costs to choose the next installation, of which one has due checks, and to look for due work."""

    def choose() -> None:
        with one.jobs.open(SYSTEM_CALLER) as uow:
            assert Turn().next(uow)
            assert not other_installations_due(uow, 1)

    look = partial(jobs_with_work, one.jobs)
    columns = f"{'organisations':>16} {'branches':>10} {'ms':>8} {'blocks':>8} {'all work':>9} {'blocks':>8}"
    print(f"the next installation {columns}")
    for organizations in map(scaled, ORGANIZATIONS):
        one.fill(organizations, 60, _DUE, _ENFORCEMENT)
        for _ in range(KEPT_AFTER):
            choose()
            look()
        costs = (one.cost(work) for work in (choose, look))
        figures = (f"{took:>8,.1f} {blocks:>8,}" for _, took, blocks in costs)
        print(f"{organizations:>38,} {organizations * 60:>10,}", *figures)


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


def _begin(url: str, ready: Barrier, times: "Queue[tuple[float, float, float]]") -> None:
    jobs = units_of(url, WORKER_ROLE)
    ready.wait()
    begun, cpu = time.perf_counter(), time.process_time()
    start_windows(jobs)
    times.put((begun, time.perf_counter(), time.process_time() - cpu))


def windows(one: World) -> None:
    """Print how long several workers take to begin windows of 50 branches each that are due at the same minute."""
    print(f"windows of 50 branches {'windows':>12} {'workers':>8} {'seconds':>8} {'CPU (ours)':>11}")
    processes = get_context("spawn")
    for organizations in map(scaled, ORGANIZATIONS):
        for workers in (1, WORKERS):
            one.fill(organizations, 50, _ENFORCEMENT, _WINDOWS)
            ready, times = processes.Barrier(workers), processes.Queue()
            running = [processes.Process(target=_begin, args=(one.url, ready, times)) for _ in range(workers)]
            for each in running:
                each.start()
            begun, ended, cpu = zip(*(times.get() for _ in running), strict=True)
            for each in running:
                each.join()
            print(f"{organizations:>35,} {workers:>8} {max(ended) - min(begun):>8.1f} {sum(cpu):>11.1f}")


CURVES = (sealing, turns, rounds, freezing, windows)


def main() -> None:
    """Draw all curves."""
    with world() as one:
        for curve in CURVES:
            curve(one)
