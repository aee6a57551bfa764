"""A queue of mails, and processes that acquire its leases under locks of their own."""

from datetime import timedelta

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session

from app.database import make_lock_engine
from models.identity import Mail
from services.core.lease_holder import HolderLock
from services.core.queue_observer import QueueObserver
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.core.work_queue import Lease, LeaseLostError, WorkQueue

LENGTH = timedelta(seconds=40)
CANDIDATES = select(Mail.id, Mail.attempts).where(Mail.template == "verify_email").order_by(Mail.due_at, Mail.id)
QUEUE = WorkQueue("mail", Mail, CANDIDATES, lease=LENGTH)


class Counts(QueueObserver):
    """Remembers what the queue reports."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, ...]] = []

    def acquired(self, kind: str, count: int, taken_over: int) -> None:
        self.reports.append(("acquired", kind, str(count), str(taken_over)))

    def released(self, kind: str, count: int) -> None:
        self.reports.append(("released", kind, str(count)))

    def postponed(self, kind: str, count: int) -> None:
        self.reports.append(("postponed", kind, str(count)))

    def failed(self, kind: str, code: str, count: int) -> None:
        self.reports.append(("failed", kind, code, str(count)))

    def lost(self, kind: str, count: int) -> None:
        self.reports.append(("lost", kind, str(count)))


class Process:
    """A process that holds a lock of its own."""

    def __init__(self, database: str, jobs: UnitOfWorkFactory) -> None:
        self._engine: Engine = make_lock_engine(database)
        self.lock = HolderLock(self._engine)
        self.observer = Counts()
        ports = jobs.ports.having(self.lock, self.observer)
        self.uow_factory = UnitOfWorkFactory(jobs.engine, jobs.clock, jobs.wakeups, ports)

    def acquire(self, queue: WorkQueue = QUEUE, limit: int = 3) -> Lease | None:
        return acquire(self.uow_factory, queue, limit)

    def take(self, queue: WorkQueue = QUEUE) -> Lease:
        """Acquire everything that is due."""
        lease = self.acquire(queue)
        assert lease is not None
        return lease

    def overtakes(self, other: "Process", lease: Lease) -> None:
        """Require that this process can take a lease of another one over, which then may record nothing."""
        taken = self.take(lease.queue)
        assert [row.taken_over for row in taken.rows] == [True] * len(lease.rows)
        with pytest.raises(LeaseLostError):
            other.require(lease)

    def require(self, lease: Lease) -> None:
        """Renew a lease; raise LeaseLostError if it has ended."""
        with self.uow_factory.open(SYSTEM_CALLER) as uow:
            lease.require(uow)

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


def acquire(uow_factory: UnitOfWorkFactory, queue: WorkQueue = QUEUE, limit: int = 3) -> Lease | None:
    with uow_factory.open(SYSTEM_CALLER) as uow:
        return queue.acquire(uow, limit=limit)


def has_work(uow_factory: UnitOfWorkFactory, queue: WorkQueue = QUEUE) -> bool:
    with uow_factory.open(SYSTEM_CALLER) as uow:
        return queue.has_work(uow)


def rows(session: Session, columns: str) -> list[tuple[object, ...]]:
    session.rollback()
    return [tuple(row) for row in session.execute(text(f"SELECT {columns} FROM mails ORDER BY id"))]
