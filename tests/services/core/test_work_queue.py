"""The work queue: who acquires what, how leases end, and what a holder whose lease has ended may do: nothing."""

from datetime import timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.core.work_queue import REQUEST, SPARE, LeaseLostError, RetryPolicy
from tests.harness.clock import MovableClock
from tests.harness.concurrency import at_once
from tests.services.core.holders import LENGTH, acquire, has_work, rows


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
        leases = at_once(*[lambda: acquire(jobs, limit=1)] * 3)
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

    def test_renewing_writes_nothing_before_the_spare_is_used_up(
        self, jobs: UnitOfWorkFactory, clock: MovableClock, session: Session
    ) -> None:
        lease = acquire(jobs)
        assert lease is not None
        written = rows(session, "lease_until, xmin::text")
        for moved, changed in ((SPARE - timedelta(seconds=1), False), (timedelta(seconds=2), True)):
            clock.offset += moved
            with jobs.open(SYSTEM_CALLER) as uow:
                assert lease.renew(uow) == {"mal_1", "mal_2", "mal_3"}
            assert (rows(session, "lease_until, xmin::text") != written) is changed

    @pytest.mark.parametrize("interrupted", [True, False])
    def test_work_that_the_database_interrupts_is_due_at_once(
        self, jobs: UnitOfWorkFactory, *, interrupted: bool
    ) -> None:
        """After any other error the row waits for the end of the lease: it might fail again at once."""
        lease = acquire(jobs)
        assert lease is not None
        error = OperationalError("COMMIT", {}, Exception("connection lost")) if interrupted else ValueError("a defect")
        with pytest.raises(type(error)), lease.while_held(jobs):
            raise error
        again = acquire(jobs)
        assert (again is not None) is interrupted
        assert again is None or all(row.taken_over for row in again.rows)

    def test_work_that_has_lost_its_lease_ends(self, jobs: UnitOfWorkFactory, clock: MovableClock) -> None:
        lease = acquire(jobs)
        assert lease is not None
        clock.offset += LENGTH
        with lease.while_held(jobs):
            with jobs.open(SYSTEM_CALLER) as uow:
                lease.require(uow)
            pytest.fail("The work went on without a lease.")

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


def test_retry_delays_grow_up_to_the_longest_and_vary() -> None:
    policy = RetryPolicy(timedelta(seconds=2), timedelta(minutes=5))
    for attempts, longest in ((0, 2), (1, 4), (3, 16), (100, 300)):
        delays = {policy.delay(attempts).total_seconds() for _ in range(50)}
        assert longest / 2 <= min(delays) < max(delays) <= longest
