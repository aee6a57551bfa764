"""What looks at the clock every second finds its rows by an index, however many windows have passed."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.orm import Session

from app.database import make_engine
from models.schedules import Schedule
from services.core.ports import Ports
from services.core.unit_of_work import UnitOfWorkFactory
from services.maintenance.tasks import cover_remaining, end_freezes, seconds_to_next
from services.schedules.missed_windows import record_missed
from services.schedules.occurrence_start import start_windows
from services.schedules.verification import compare_windows, verify_windows
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.wakeups import RecordedWakeups

pytestmark = pytest.mark.check

PASSED = text("""
    WITH passed AS (
        SELECT n, now() - interval '400 days' + n * interval '1 minute' AS at FROM generate_series(1, 20000) n
    ), frozen AS (
        INSERT INTO freezes (id, organization_id, reason, scope, source, started_at, ends_at, ended_at,
                             exceptions_allowed, impact_acknowledged, created_by, enforced_at, released_at)
        SELECT 'frz_' || n, :organization, 'long over', '{}', 'schedule', at, at, at, true, true, '{}', at, at
        FROM passed
    )
    INSERT INTO occurrences (id, organization_id, schedule_id, starts_at, ends_at, started_at)
    SELECT 'occ_' || n, :organization, :schedule, at, at, at FROM passed
""")


@pytest.fixture(scope="module")
def past(module_database: str) -> Iterator[tuple[Session, Schedule]]:
    """Yield a session on a database where 20,000 windows have passed, and their schedule."""
    owner = create_engine(module_database)
    with Session(owner, expire_on_commit=False) as session:
        acme = factories.organization(session)
        schedule = factories.schedule(session, acme)
        session.execute(PASSED, {"organization": acme.id, "schedule": schedule.id})
        session.commit()
        session.execute(text("ANALYZE"))
        session.commit()
        yield session, schedule
    owner.dispose()


@pytest.fixture
def busy(module_database: str, past: tuple[Session, Schedule]) -> Iterator[UnitOfWorkFactory]:
    """Units of a sweeper on that database, where a window is due as well."""
    session, schedule = past
    factories.occurrence(session, schedule, starts_at=factories.now())
    session.commit()
    engine = make_engine(module_database, 2, role="change_freeze_worker")
    yield UnitOfWorkFactory(engine, MovableClock(), RecordedWakeups(), Ports())
    engine.dispose()


@pytest.mark.parametrize(
    "chore",
    [start_windows, record_missed, verify_windows, compare_windows, cover_remaining, end_freezes, seconds_to_next],
    ids=lambda chore: chore.__name__,
)
def test_periodic_tasks_scan_no_whole_table_of_windows_or_freezes(
    busy: UnitOfWorkFactory, chore: Callable[[UnitOfWorkFactory], object]
) -> None:
    selects: list[tuple[str, Any]] = []

    def remember(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.lstrip().startswith("SELECT"):
            selects.append((statement, parameters))

    event.listen(busy.engine, "before_cursor_execute", remember)
    chore(busy)
    event.remove(busy.engine, "before_cursor_execute", remember)
    with busy.engine.connect() as connection:
        for statement, parameters in selects:
            plan = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars().all()
            explained = "\n".join(plan)
            assert "Seq Scan on occurrences" not in explained, f"{statement}\n{explained}"
            assert "Seq Scan on freezes" not in explained, f"{statement}\n{explained}"
    assert any("occurrences" in statement or "freezes" in statement for statement, _ in selects)
