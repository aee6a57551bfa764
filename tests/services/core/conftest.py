"""Three due mails, and processes that work on them."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from services.core.ports import Ports
from services.core.unit_of_work import UnitOfWorkFactory
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups
from tests.services.core.holders import Process


@pytest.fixture
def jobs(database: str, clock: MovableClock, wakeups: RecordedWakeups) -> UnitOfWorkFactory:
    """Units of a worker that holds no lock."""
    return UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, wakeups, Ports())


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


@pytest.fixture
def processes(database: str, jobs: UnitOfWorkFactory) -> Iterator[tuple[Process, Process]]:
    both = Process(database, jobs), Process(database, jobs)
    yield both
    for process in both:
        if process.lock._connection is not None:
            process.lock._connection.close()
