"""The overview and what needs attention cost the same however much there is: few statements, each by an index."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.orm import Session

from models.organizations import Organization
from services.core.unit_of_work import UnitOfWork
from services.overview import alerts, summary
from services.overview.alert_sources import freezes, union
from services.overview.alert_sources.columns import Query
from tests import factories
from tests.services.conftest import UnitOfWorkOpener
from tests.services.test_indexes import MANY

MORE = """
    INSERT INTO freeze_targets (id, organization_id, freeze_id, branch_id, state, generation)
    SELECT 'tgt_' || n, 'org_1', 'frz_' || n, 'wbr_' || n, CASE n WHEN 7 THEN 'failed' ELSE 'released' END, 1
    FROM generate_series(1, 3000) n;
    INSERT INTO pull_requests (id, organization_id, repository_id, number, title, author, url, base_branch, head_sha,
                               state, merge_rank, created_at, seen_at)
    SELECT 'pul_' || n, 'org_1', 'rep_' || n, n, '', '', '', 'main', '', 'open', 1, now(), now()
    FROM generate_series(1, 3000) n;
    INSERT INTO exceptions (id, organization_id, request_group_id, freeze_id, pull_request_id, branch_id, reason,
                            pin_to_head, created_at, decision)
    SELECT 'exc_' || n, 'org_1', 'exg_' || n, 'frz_' || n, 'pul_' || n, 'wbr_' || n, '', false, now(),
           CASE n WHEN 7 THEN NULL ELSE 'granted' END FROM generate_series(1, 3000) n;
    ANALYZE;
"""


def statements(uow: UnitOfWork) -> int:
    """Count what is sent for both, after the connection is known."""
    sent: list[str] = []
    connection = uow.session.connection()
    event.listen(connection, "before_cursor_execute", lambda *arguments: sent.append(arguments[2]))
    summary.show(uow)
    alerts.list_alerts(uow, alerts.AlertFilters(), None, 100)
    return len(sent)


def test_overview_takes_constant_queries_for_many_rows(
    unit_of: UnitOfWorkOpener, acme: Organization, session: Session
) -> None:
    with unit_of(acme) as uow:
        few = statements(uow)
    for number in range(12):
        repository = factories.repository(session, acme, f"acme/service-{number}")
        branch, pull = factories.branch(session, repository), factories.pull_request(session, repository)
        freeze = factories.freeze(session, acme, [branch])
        factories.target(session, factories.freeze(session, acme), branch, state="failed", last_error_message="No.")
        factories.exception(session, freeze, pull, branch, decision=None)
        factories.occurrence(session, factories.schedule(session, acme))
        factories.api_key(session, acme, created_at=factories.now() - timedelta(days=9), expires_at=factories.now())
    session.commit()
    with unit_of(acme) as uow:
        many = statements(uow)
    assert many <= few + 2  # the targets of freezes are counted where there are some, by state and by blocking
    assert many <= 12


def test_overview_takes_constant_queries_for_many_windows_that_wait_to_begin(
    unit_of: UnitOfWorkOpener, acme: Organization, session: Session
) -> None:
    def open_window() -> None:
        starts_at = factories.now() - timedelta(minutes=1)
        factories.occurrence(session, factories.schedule(session, acme), starts_at=starts_at)
        session.commit()

    factories.branch(session, factories.repository(session, acme))
    open_window()
    with unit_of(acme) as uow:
        one = statements(uow)
    for _ in range(3):
        open_window()
    with unit_of(acme) as uow:
        assert summary.show(uow)["freezes"]["in_force"] == 4
        assert statements(uow) == one


@pytest.fixture
def connection(own_database: str) -> Iterator[Connection]:
    """Yield a connection to a database with many rows of which few are wanted, and which knows that."""
    engine = create_engine(own_database)
    with engine.connect() as connection:
        connection.exec_driver_sql(MANY)
        connection.exec_driver_sql(MORE)
        yield connection
    engine.dispose()


@pytest.mark.check
@pytest.mark.parametrize(
    ("source", "index"),
    [
        pytest.param(union.open_alerts, "attention_items", id="raised items"),
        pytest.param(freezes.failed_targets, "ix_freeze_targets_failed", id="failed targets"),
        pytest.param(freezes.pending_requests, "ix_exceptions_pending", id="requests"),
    ],
)
def test_attention_items_are_found_by_an_index(connection: Connection, source: Callable[[], Query], index: str) -> None:
    values = {
        "organization": "org_1",
        "now": factories.now(),
        "web": "https://changefreeze.example",
        "decidable": True,
    }
    plan = connection.execute(text(f"EXPLAIN {union.sql_of(source())}"), values).scalars().all()
    assert any(index in line for line in plan), "\n".join(plan)
    assert not any("Seq Scan on freeze_targets" in line or "Seq Scan on exceptions" in line for line in plan)
