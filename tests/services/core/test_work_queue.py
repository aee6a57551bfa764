"""The work queue: who acquires what, how leases end, and what a holder whose lease has ended may do: nothing."""

from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import timedelta
from threading import Barrier, Thread
from time import sleep
from typing import cast

import pytest
from sqlalchemy import Engine, StaticPool, create_engine, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from app.config import Config
from app.database import WORKER_ROLE, make_engine, make_lock_engine
from integrations.github import CALL_DEADLINE_SECONDS
from models.identity import Mail
from services.bypass_detection.detection import TIPS
from services.core.lease_holder import (
    KEPT,
    MAX_SILENCE,
    Heartbeat,
    HolderLock,
    PooledConnectionError,
    remove_dead_holders,
    runs,
)
from services.core.queue_observer import IgnoreQueue
from services.core.unit_of_work import SYSTEM_CALLER, Dependencies, UnitOfWorkFactory
from services.core.work_queue import LEASE_DURATION, REQUEST, Lease, LeaseLostError, RetryPolicy, WorkQueue
from services.enforcement.probe_queue import PROBES
from services.enforcement.setup_runs import SETUPS
from services.offboarding.withdrawal import WITHDRAWALS
from services.reconcile.leases import BRANCHES
from services.reconcile.reconciler import MAX_EVALUATION_AGE, RENEWAL_INTERVAL
from tests.harness.clock import MovableClock
from tests.harness.wakeups import RecordedWakeups

LENGTH, CALL = timedelta(seconds=40), timedelta(seconds=20)
CANDIDATES = select(Mail.id, Mail.attempts).where(Mail.template == "verify_email").order_by(Mail.due_at, Mail.id)
QUEUE = WorkQueue("mail", Mail, CANDIDATES, lease=LENGTH)
OF_TESTS = text("SELECT count(*) FROM lease_holders WHERE beat_at IS DISTINCT FROM 'infinity'")
"""How many processes a test has made."""


class Counts(IgnoreQueue):
    """Remembers what the queue reports."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, ...]] = []

    def acquired(self, kind: str, count: int, taken_over: int) -> None:
        self.reports.append(("acquired", kind, str(count), str(taken_over)))

    def released(self, kind: str, count: int) -> None:
        self.reports.append(("released", kind, str(count)))

    def failed(self, kind: str, code: str, count: int) -> None:
        self.reports.append(("failed", kind, code, str(count)))

    def lost(self, kind: str, count: int) -> None:
        self.reports.append(("lost", kind, str(count)))


@pytest.fixture
def jobs(database: str, clock: MovableClock, wakeups: RecordedWakeups) -> Iterator[UnitOfWorkFactory]:
    """Units of a worker that holds no lock."""
    engine = make_engine(database, 4, WORKER_ROLE)
    yield UnitOfWorkFactory(engine, clock, wakeups, Dependencies())
    engine.dispose()


@pytest.fixture
def work(session: Session) -> None:
    """Three rows that are due."""
    session.execute(
        text(
            "INSERT INTO mails (id, recipient, template, created_at, due_at) "
            "SELECT 'mal_' || n, 'ada@example.com', 'verify_email', now(), now() - interval '1 minute' "
            "FROM generate_series(1, 3) n"
        )
    )
    session.commit()


class Process:
    """A process that holds a lock of its own."""

    def __init__(self, database: str, jobs: UnitOfWorkFactory) -> None:
        self._engine: Engine = make_lock_engine(database)
        self.lock = HolderLock(self._engine, "worker")
        self.observer = Counts()
        dependencies = replace(jobs.dependencies, lease_holder=self.lock, queue_observer=self.observer)
        self.uow_factory = UnitOfWorkFactory(jobs.engine, jobs.clock, jobs.wakeups, dependencies)

    def acquire(self, queue: WorkQueue = QUEUE, limit: int = 3) -> Lease | None:
        return acquire(self.uow_factory, queue, limit)

    def die(self, session: Session) -> None:
        """End the connection of the lock, as the kernel does for a process that is killed."""
        session.execute(
            text(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' AND objid = :number "
                "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            ),
            {"number": self.number},
        )
        session.commit()

    @property
    def number(self) -> int | None:
        return self.lock._number


@pytest.fixture
def processes(database: str, jobs: UnitOfWorkFactory) -> Iterator[tuple[Process, Process]]:
    both = Process(database, jobs), Process(database, jobs)
    yield both
    for process in both:
        if process.lock._connection is not None:
            process.lock._connection.close()


def acquire(uow_factory: UnitOfWorkFactory, queue: WorkQueue = QUEUE, limit: int = 3) -> Lease | None:
    with uow_factory.open(SYSTEM_CALLER) as uow:
        return queue.acquire(uow, limit=limit)


def has_work(uow_factory: UnitOfWorkFactory, queue: WorkQueue = QUEUE) -> bool:
    with uow_factory.open(SYSTEM_CALLER) as uow:
        return queue.has_work(uow)


def rows(session: Session, columns: str) -> list[tuple[object, ...]]:
    session.rollback()
    return [tuple(row) for row in session.execute(text(f"SELECT {columns} FROM mails ORDER BY id"))]


@pytest.mark.usefixtures("work")
class TestLeases:
    def test_acquire_leases_due_rows_once(self, jobs: UnitOfWorkFactory) -> None:
        first, second = acquire(jobs, limit=2), acquire(jobs, limit=2)
        assert first is not None
        assert second is not None
        assert [*first.keys, *second.keys] == ["mal_1", "mal_2", "mal_3"]
        assert acquire(jobs) is None
        assert not has_work(jobs)

    def test_rows_acquired_at_the_same_time_are_different(self, jobs: UnitOfWorkFactory) -> None:
        barrier, leases = Barrier(3), []

        def take() -> None:
            barrier.wait()
            leases.append(acquire(jobs, limit=1))

        threads = [Thread(target=take) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        keys = [lease.row.id for lease in leases if lease is not None]
        assert len(keys) == len(set(keys))

    def test_renewed_lease_lasts_longer(self, jobs: UnitOfWorkFactory, clock: MovableClock) -> None:
        lease = acquire(jobs)
        assert lease is not None
        clock.offset += LENGTH / 2
        with jobs.open(SYSTEM_CALLER) as uow:
            assert lease.renew(uow) == {"mal_1", "mal_2", "mal_3"}
        clock.offset += LENGTH / 2
        assert acquire(jobs) is None
        clock.offset += LENGTH / 2
        again = acquire(jobs)
        assert again is not None
        assert all(row.taken_over for row in again.rows)

    @pytest.mark.parametrize("interrupted", [True, False])
    def test_work_that_the_database_interrupts_is_due_at_once(
        self, jobs: UnitOfWorkFactory, *, interrupted: bool
    ) -> None:
        """After any other error the row waits for the end of the lease: it might fail again at once."""
        lease = acquire(jobs)
        assert lease is not None
        error = OperationalError("COMMIT", {}, Exception("connection lost")) if interrupted else ValueError("a defect")
        with pytest.raises(type(error)), lease.ended_if_interrupted(jobs):
            raise error
        again = acquire(jobs)
        assert (again is not None) is interrupted
        assert again is None or all(row.taken_over for row in again.rows)

    def test_released_row_is_done(self, jobs: UnitOfWorkFactory, session: Session) -> None:
        lease = acquire(jobs)
        assert lease is not None
        with jobs.open(SYSTEM_CALLER) as uow:
            lease.release(uow)
        assert set(rows(session, "due_at, lease_token, lease_until")) == {(None, None, None)}

    def test_row_requested_during_the_lease_stays_due(self, jobs: UnitOfWorkFactory, session: Session) -> None:
        lease = acquire(jobs)
        assert lease is not None
        with jobs.open(SYSTEM_CALLER) as uow:
            request = f"UPDATE mails SET due_at = {REQUEST.format(row='mails')} WHERE id = 'mal_2'"
            uow.session.execute(text(request), {"now": lease.acquired_at})
        with jobs.open(SYSTEM_CALLER) as uow:
            lease.release(uow)
        again = acquire(jobs)
        assert again is not None
        assert again.keys == ["mal_2"]
        assert not again.row.taken_over

    def test_failed_row_is_due_after_its_delay(
        self, jobs: UnitOfWorkFactory, session: Session, clock: MovableClock
    ) -> None:
        lease = acquire(jobs, limit=1)
        assert lease is not None
        with jobs.open(SYSTEM_CALLER) as uow:
            lease.fail(uow, "refused", "no " * 1000, uow.now + timedelta(seconds=10))
        [[attempts, code, length], *_] = rows(session, "attempts, last_error_code, length(last_error_message)")
        assert (attempts, code, length) == (1, "refused", 500)
        assert "mal_1" not in getattr(acquire(jobs), "keys", ())
        clock.offset += timedelta(seconds=11)
        again = acquire(jobs)
        assert again is not None
        assert again.row.attempts == 1

    @pytest.mark.parametrize("successor", [False, True], ids=["before it is taken over", "after it is taken over"])
    @pytest.mark.parametrize("change", ["renew", "release", "postpone", "fail"])
    def test_ended_lease_changes_nothing(
        self, jobs: UnitOfWorkFactory, session: Session, clock: MovableClock, change: str, successor: bool
    ) -> None:
        lease = acquire(jobs)
        assert lease is not None
        clock.offset += LENGTH
        if successor:
            assert getattr(acquire(jobs), "keys", None) == lease.keys
        before = rows(session, "*")
        with jobs.open(SYSTEM_CALLER) as uow:
            found = {
                "renew": lambda: lease.renew(uow),
                "release": lambda: lease.release(uow),
                "postpone": lambda: lease.postpone(uow, uow.now),
                "fail": lambda: lease.fail(uow, "code", "message", None),
            }[change]()
        assert found == set()
        assert rows(session, "*") == before
        with jobs.open(SYSTEM_CALLER) as uow, pytest.raises(LeaseLostError):
            lease.require(uow)


@pytest.mark.usefixtures("work")
class TestDeadHolders:
    def test_lease_of_a_living_holder_is_kept(self, processes: tuple[Process, Process]) -> None:
        first, second = processes
        assert first.acquire() is not None
        assert second.acquire() is None
        assert first.number != second.number

    def test_lease_of_a_dead_holder_ends_at_once(
        self, processes: tuple[Process, Process], jobs: UnitOfWorkFactory, session: Session
    ) -> None:
        first, second = processes
        first.acquire()
        assert not has_work(jobs)
        first.die(session)
        assert has_work(jobs)
        lease = second.acquire()
        assert lease is not None
        assert [row.taken_over for row in lease.rows] == [True] * 3
        assert second.observer.reports == [("acquired", "mail", "3", "3")]

    def test_holder_whose_connection_broke_stops_before_its_next_write(
        self, processes: tuple[Process, Process], session: Session
    ) -> None:
        first, _second = processes
        lease = first.acquire()
        assert lease is not None
        before = rows(session, "*")
        first.die(session)
        with first.uow_factory.open(SYSTEM_CALLER) as uow:
            with pytest.raises(LeaseLostError):
                lease.require(uow)
            assert lease.release(uow) == set()
        assert rows(session, "*") == before
        assert ("lost", "mail", "3") in first.observer.reports

    def test_holder_whose_connection_broke_continues_under_another_number(
        self, processes: tuple[Process, Process], session: Session
    ) -> None:
        first, _second = processes
        first.acquire()
        number = first.number
        first.die(session)
        lease = first.acquire()
        assert lease is not None
        assert first.number != number
        with first.uow_factory.open(SYSTEM_CALLER) as uow:
            lease.require(uow)

    def test_work_of_a_dead_holder_waits_for_its_last_call(
        self, processes: tuple[Process, Process], session: Session, clock: MovableClock
    ) -> None:
        first, second = processes
        queue = WorkQueue("mail", Mail, CANDIDATES, lease=LENGTH, call_timeout=CALL)
        first.acquire(queue)
        first.die(session)
        assert second.acquire(queue) is None
        clock.offset += CALL
        assert second.acquire(queue) is not None

    def test_dead_holders_are_removed_when_no_lease_can_name_them(
        self, processes: tuple[Process, Process], jobs: UnitOfWorkFactory, session: Session, clock: MovableClock
    ) -> None:
        first, second = processes
        first.acquire()
        second.acquire()
        first.die(session)
        for expected in (2, 1):
            with jobs.open(SYSTEM_CALLER) as uow:
                remove_dead_holders(uow.session, uow.now)
            session.rollback()
            assert session.scalar(OF_TESTS) == expected
            assert has_work(jobs)
            clock.offset += KEPT * 1.1


@pytest.mark.usefixtures("work")
class TestSilentHolders:
    @staticmethod
    def fall_silent(process: Process, session: Session, seconds: float = 11) -> None:
        """Make the last heartbeat of a process so many seconds old."""
        process.lock.beat()
        process.lock._beaten -= seconds
        session.execute(
            text(
                "UPDATE lease_holders SET beat_at = clock_timestamp() - make_interval(secs => :age) WHERE id = :number"
            ),
            {"age": seconds, "number": process.number},
        )
        session.commit()

    def test_lease_of_a_silent_holder_is_taken_over(self, processes: tuple[Process, Process], session: Session) -> None:
        first, second = processes
        lease = first.acquire()
        assert lease is not None
        self.fall_silent(first, session, MAX_SILENCE.total_seconds() - 3)
        assert second.acquire() is None
        self.fall_silent(first, session, MAX_SILENCE.total_seconds() + 1)
        taken = second.acquire()
        assert taken is not None
        assert [row.taken_over for row in taken.rows] == [True] * 3
        with first.uow_factory.open(SYSTEM_CALLER) as uow, pytest.raises(LeaseLostError):
            lease.require(uow)

    def test_holder_that_wakes_keeps_leases_that_were_not_taken_over(
        self, processes: tuple[Process, Process], session: Session
    ) -> None:
        first, second = processes
        lease = first.acquire()
        assert lease is not None
        self.fall_silent(first, session)
        with first.uow_factory.open(SYSTEM_CALLER) as uow:
            lease.require(uow)
        first.lock.beat()
        assert second.acquire() is None

    def test_holder_that_wakes_writes_a_heartbeat_before_it_acquires(
        self, processes: tuple[Process, Process], session: Session
    ) -> None:
        first, second = processes
        first.lock.take()
        self.fall_silent(first, session)
        assert first.acquire() is not None
        assert second.acquire() is None

    def test_heartbeat_after_a_broken_connection_has_another_number(
        self, processes: tuple[Process, Process], session: Session
    ) -> None:
        first, _second = processes
        first.lock.beat()
        number = first.number
        first.die(session)
        first.lock.beat()
        assert first.number != number
        with first.uow_factory.open(SYSTEM_CALLER) as uow:
            assert runs(uow.session, "worker")
            assert not runs(uow.session, "sweeper")
        first.die(session)
        with first.uow_factory.open(SYSTEM_CALLER) as uow:
            assert not runs(uow.session, "worker")

    def test_silent_holder_is_not_recorded_as_dead(
        self, processes: tuple[Process, Process], session: Session, jobs: UnitOfWorkFactory
    ) -> None:
        first, _second = processes
        first.lock.take()
        self.fall_silent(first, session)
        with jobs.open(SYSTEM_CALLER) as uow:
            remove_dead_holders(uow.session, uow.now)
        ended = text("SELECT ended_at FROM lease_holders WHERE id = :number")
        assert session.scalar(ended, {"number": first.number}) is None

    def test_last_holder_of_a_kind_is_kept(
        self, processes: tuple[Process, Process], session: Session, jobs: UnitOfWorkFactory, clock: MovableClock
    ) -> None:
        first, _second = processes
        first.lock.take()
        first.die(session)
        for _ in range(2):
            with jobs.open(SYSTEM_CALLER) as uow:
                remove_dead_holders(uow.session, uow.now)
            clock.offset += KEPT * 1.1
        assert session.scalar(OF_TESTS) == 1

    def test_end_of_a_process_is_recorded_with_its_heartbeats(
        self, processes: tuple[Process, Process], session: Session
    ) -> None:
        first, _second = processes
        heartbeat = Heartbeat(first.lock)
        while not session.scalar(text("SELECT count(beat_at) FROM lease_holders WHERE beat_at < 'infinity'")):
            session.rollback()
            sleep(0.01)
        heartbeat.stop()
        session.rollback()
        [(kind, stopped)] = session.execute(
            text("SELECT kind, stopped_at >= beat_at FROM lease_holders WHERE id = :number"),
            {"number": first.number},
        ).all()
        assert (kind, stopped) == ("worker", True)


@pytest.mark.usefixtures("work")
class TestHoldersWithoutProgress:
    def test_living_holder_without_progress_is_overtaken(
        self, processes: tuple[Process, Process], clock: MovableClock
    ) -> None:
        first, second = processes
        queue = WorkQueue("mail", Mail, CANDIDATES)
        lease = first.acquire(queue)
        assert lease is not None
        clock.offset += LEASE_DURATION - timedelta(seconds=1)
        first.lock.beat()
        assert second.acquire(queue) is None
        clock.offset += timedelta(seconds=1)
        taken = second.acquire(queue)
        assert taken is not None
        assert [row.taken_over for row in taken.rows] == [True] * 3
        with first.uow_factory.open(SYSTEM_CALLER) as uow, pytest.raises(LeaseLostError):
            lease.require(uow)

    def test_holder_of_work_at_github_is_overtaken_within_20_seconds(self) -> None:
        sweep_every = cast(timedelta, {each.name: each.default for each in fields(Config)}["sweep_every"])
        leases = {queue.lease for queue in (BRANCHES, PROBES, SETUPS, TIPS, WITHDRAWALS)}
        assert leases == {LEASE_DURATION}
        assert LEASE_DURATION + 2 * sweep_every <= timedelta(seconds=20)

    def test_call_has_ended_when_the_lease_ends_under_which_it_was_made(self) -> None:
        assert timedelta(seconds=MAX_EVALUATION_AGE + CALL_DEADLINE_SECONDS) <= LEASE_DURATION
        assert timedelta(seconds=RENEWAL_INTERVAL + CALL_DEADLINE_SECONDS) < LEASE_DURATION


def test_pooled_connection_is_refused(database: str) -> None:
    engine = create_engine(database, poolclass=StaticPool)
    with pytest.raises(PooledConnectionError, match="DATABASE_DIRECT_URL"):
        HolderLock(engine, "worker").take()
    engine.dispose()


def test_retry_delays_grow_up_to_the_longest_and_vary() -> None:
    policy = RetryPolicy(timedelta(seconds=2), timedelta(minutes=5))
    for attempts, longest in ((0, 2), (1, 4), (3, 16), (100, 300)):
        delays = {policy.delay(attempts).total_seconds() for _ in range(50)}
        assert longest / 2 <= min(delays) < max(delays) <= longest
