"""Holders of leases: what ends when a process is dead or silent, and what it may still do then: nothing."""

from dataclasses import fields
from datetime import timedelta
from typing import cast

import pytest
from sqlalchemy import StaticPool, create_engine, text
from sqlalchemy.orm import Session

from app.config import Config
from integrations.github import CALL_DEADLINE_SECONDS
from models.identity import Mail
from services.bypass_detection.detection import TIPS
from services.core.lease_holder import (
    DEAD_HOLDER_RETENTION,
    MAX_SILENCE,
    Heartbeat,
    HolderLock,
    PooledConnectionError,
    remove_dead_holders,
    worker_runs,
)
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.core.work_queue import LEASE_DURATION, SPARE, LeaseLostError, WorkQueue
from services.enforcement.frozen_branches import FROZEN_BRANCHES
from services.enforcement.probe_queue import PROBES
from services.enforcement.setup_runs import SETUPS
from services.offboarding.withdrawal import WITHDRAWALS
from services.reconcile.leases import CHECKS
from services.reconcile.pass_state import RENEWAL_INTERVAL
from services.reconcile.reconciler import MAX_EVALUATION_AGE
from tests.harness.clock import MovableClock
from tests.harness.concurrency import eventually
from tests.harness.sessions import committing
from tests.services.core.holders import CANDIDATES, LENGTH, Process, has_work, rows

CALL = timedelta(seconds=20)
OF_TESTS = text("SELECT count(*) FROM lease_holders WHERE beat_at IS DISTINCT FROM 'infinity'")
"""How many processes a test has made."""


@pytest.mark.usefixtures("work")
class TestDeadHolders:
    def test_lease_of_a_living_holder_is_kept(self, processes: tuple[Process, Process]) -> None:
        first, second = processes
        first.take()
        assert second.acquire() is None
        assert first.number != second.number

    def test_lease_of_a_dead_holder_ends_at_once(
        self, processes: tuple[Process, Process], jobs: UnitOfWorkFactory, session: Session
    ) -> None:
        first, second = processes
        lease = first.take()
        assert not has_work(jobs)
        first.die(session)
        assert has_work(jobs)
        second.overtakes(first, lease)
        assert second.observer.reports == [("acquired", "mail", "3", "3")]

    def test_holder_whose_connection_broke_stops_before_its_next_write(
        self, processes: tuple[Process, Process], session: Session
    ) -> None:
        first, _second = processes
        lease = first.take()
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
        first.take()
        number = first.number
        first.die(session)
        lease = first.take()
        assert first.number != number
        first.require(lease)

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
            clock.offset += DEAD_HOLDER_RETENTION * 1.1


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
        lease = first.take()
        self.fall_silent(first, session, MAX_SILENCE.total_seconds() - 3)
        assert second.acquire() is None
        self.fall_silent(first, session, MAX_SILENCE.total_seconds() + 1)
        second.overtakes(first, lease)

    def test_holder_that_wakes_keeps_leases_that_were_not_taken_over(
        self, processes: tuple[Process, Process], session: Session
    ) -> None:
        first, second = processes
        lease = first.take()
        self.fall_silent(first, session)
        first.require(lease)
        first.lock.beat()
        assert second.acquire() is None

    def test_holder_that_wakes_writes_a_heartbeat_before_it_acquires(
        self, processes: tuple[Process, Process], session: Session
    ) -> None:
        first, second = processes
        first.lock.take()
        self.fall_silent(first, session)
        first.take()
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
            assert worker_runs(uow.session)
        first.die(session)
        with first.uow_factory.open(SYSTEM_CALLER) as uow:
            assert not worker_runs(uow.session)

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
            clock.offset += DEAD_HOLDER_RETENTION * 1.1
        assert session.scalar(OF_TESTS) == 1

    def test_end_of_a_process_is_recorded_with_its_heartbeats(
        self, processes: tuple[Process, Process], session: Session, database: str
    ) -> None:
        first, _second = processes
        beats = text("SELECT count(beat_at) FROM lease_holders WHERE beat_at < 'infinity'")
        heartbeat = Heartbeat(first.lock)
        try:
            with committing(database) as watching:
                eventually(lambda: watching.scalar(beats))
        finally:
            heartbeat.stop()
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
        lease = first.take(queue)
        clock.offset += LEASE_DURATION - timedelta(seconds=1)
        first.lock.beat()
        assert second.acquire(queue) is None
        clock.offset += timedelta(seconds=1)
        second.overtakes(first, lease)

    def test_transaction_that_lasts_longer_than_its_lease_keeps_it(
        self, processes: tuple[Process, Process], clock: MovableClock
    ) -> None:
        first, second = processes
        queue = WorkQueue("mail", Mail, CANDIDATES)
        lease = first.take(queue)
        with first.uow_factory.open(SYSTEM_CALLER) as uow:
            held = lease.renew(uow)
            clock.offset += LEASE_DURATION * 2
            assert second.acquire(queue) is None
            lease.prolong(uow, held)
        assert second.acquire(queue) is None
        first.require(lease)

    def test_released_lease_is_not_prolonged(self, processes: tuple[Process, Process]) -> None:
        first, second = processes
        lease = first.take()
        with first.uow_factory.open(SYSTEM_CALLER) as uow:
            released = lease.postpone(uow, uow.now)
            lease.prolong(uow, released)
        second.take()

    def test_holder_of_work_at_github_is_overtaken_within_20_seconds(self) -> None:
        sweep_every = cast(timedelta, {each.name: each.default for each in fields(Config)}["sweep_every"])
        leases = {queue.lease for queue in (CHECKS, FROZEN_BRANCHES, PROBES, SETUPS, TIPS, WITHDRAWALS)}
        assert leases == {LEASE_DURATION}
        assert LEASE_DURATION + 2 * sweep_every <= timedelta(seconds=20)

    def test_call_has_ended_when_the_lease_ends_under_which_it_was_made(self) -> None:
        assert timedelta(seconds=MAX_EVALUATION_AGE + CALL_DEADLINE_SECONDS) <= LEASE_DURATION - SPARE
        assert timedelta(seconds=RENEWAL_INTERVAL + CALL_DEADLINE_SECONDS) < LEASE_DURATION - SPARE


def test_pooled_connection_is_refused(database: str) -> None:
    engine = create_engine(database, poolclass=StaticPool)
    with pytest.raises(PooledConnectionError, match="DATABASE_DIRECT_URL"):
        HolderLock(engine).take()
    engine.dispose()
