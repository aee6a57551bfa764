"""Rows past their retention are deleted in batches, and periods that an operator chose are obeyed."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from models import Base
from rules.retention import Retention
from services.core.ports import Ports
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.maintenance import retention
from services.maintenance.retention import purge_expired
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups

PAGE = Path(__file__).parents[2] / "docs/operations/retention.md"


@pytest.fixture
def jobs(database: str, clock: MovableClock, wakeups: RecordedWakeups) -> UnitOfWorkFactory:
    return UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, wakeups, Ports())


def receive(session: Session, number: int, *, days_ago: int, prefix: str = "old") -> None:
    """Store deliveries that arrived so long ago."""
    session.execute(
        text(
            "INSERT INTO webhook_deliveries (delivery_id, event, payload, received_at, attempts) "
            "SELECT :prefix || n, 'push', '{}', now() - :days * interval '1 day', 0 FROM generate_series(1, :number) n"
        ),
        {"prefix": prefix, "days": days_ago, "number": number},
    )
    session.commit()


def left(session: Session, table: str = "webhook_deliveries") -> int:
    session.rollback()
    return int(session.scalar(text(f"SELECT count(*) FROM {table}")) or 0)


@contextmanager
def counted_rows(jobs: UnitOfWorkFactory) -> Iterator[list[int]]:
    """Yield a list that gets the number of rows of each transaction that deletes some."""
    found: list[int] = []

    def count(_connection: object, cursor: object, statement: str, *_: object) -> None:
        if "DELETE FROM webhook_deliveries" in statement:
            found.append(cursor.rowcount)  # type: ignore[attr-defined]

    event.listen(jobs.engine, "after_cursor_execute", count)
    try:
        yield found
    finally:
        event.remove(jobs.engine, "after_cursor_execute", count)


def documented(*headings: str) -> list[str]:
    """Return the tables that the page names below these headings, or everywhere."""
    parts = re.split(r"^(?:## |\*\*)(.*?)(?:$|\.\*\*)", PAGE.read_text(), flags=re.MULTILINE)
    chosen = [text for heading, text in pairwise(parts) if not headings or heading in headings]
    lines = "\n".join(chosen).splitlines()
    return [name for line in lines if line.startswith("| `") for name in re.findall(r"`(\w+)`", line.split("|")[1])]


def test_page_says_of_every_table_what_bounds_it() -> None:
    """A new table needs a line in the page, and a rule or a reason why it may grow."""
    assert sorted(documented()) == sorted(table.name for table in Base.metadata.sorted_tables)


def test_page_names_what_is_deleted_by_age() -> None:
    deleted = {rule.table for rule in retention.rules_of(Retention())} - {"webhook_endpoints"}
    assert set(documented("Deleted by age")) - deleted == {"audit_unsealed", "lease_holders", "signing_keys"}
    assert deleted <= set(documented("Deleted by age"))


def test_expired_rows_are_deleted_in_batches(
    session: Session, jobs: UnitOfWorkFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH_SIZE", 2)
    receive(session, 5, days_ago=8)
    receive(session, 1, days_ago=6, prefix="new")
    with counted_rows(jobs) as rows:
        assert purge_expired(jobs)
    assert rows == [2, 2, 1]
    assert left(session) == 1


def test_purge_continues_in_the_next_sweep_after_its_maximum(
    session: Session, jobs: UnitOfWorkFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "MAX_ROWS", 3)
    receive(session, 7, days_ago=31)
    runs = []
    while purge_expired(jobs):
        runs.append(left(session))
    assert runs == [4, 1, 0]


@pytest.mark.parametrize(("days", "kept"), [(41, True), (39, False)])
def test_purge_obeys_the_retention_of_the_operator(
    session: Session, jobs: UnitOfWorkFactory, days: int, *, kept: bool
) -> None:
    jobs.ports = Ports(Retention(deliveries=timedelta(days=days)))
    receive(session, 1, days_ago=40)
    purge_expired(jobs)
    assert left(session) == kept


def test_every_rule_can_be_applied_by_jobs(jobs: UnitOfWorkFactory) -> None:
    """Rights and columns are those of the rules, also where no other test has such a row."""
    with jobs.open(SYSTEM_CALLER) as uow:
        for rule in retention.rules_of(Retention()):
            uow.session.execute(retention.change_of(rule), {"places": ["(0,1)"], "before": uow.now - rule.age})
