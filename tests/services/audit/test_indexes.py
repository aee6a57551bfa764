"""Every filter of the audit finds its rows by an index, in either order, behind row-level security as the API reads."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

import pytest
from sqlalchemy import Engine, create_engine, event, text

from app.database import make_engine
from rules.billing.grants import PlanGrants
from services.audit.entries import list_entries
from services.audit.filters import AuditFilters
from services.core.clock import DatabaseClock
from services.core.ports import Ports
from services.core.rotated_secrets import CursorSecret
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.overview import summary
from tests import factories
from tests.factories.plans import BUSINESS
from tests.harness.wakeups import RecordedWakeups
from tests.services.conftest import ADA

pytestmark = pytest.mark.check

ROWS = 20_000
MANY = f"""
    SET session_replication_role = replica;
    INSERT INTO organizations (id, name, slug, settings, created_at)
    VALUES ('org_1', 'Acme', 'acme', '{{}}', now()), ('org_2', 'Globex', 'globex', '{{}}', now());
    INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, details)
    SELECT 'aud_' || lpad(n::text, 6, '0'), 'org_1', now() - ({ROWS} - n) * interval '10 minutes',
           CASE n % 1000 WHEN 7 THEN 'freeze.bypassed' ELSE 'freeze.started' END,
           jsonb_build_object('type', 'user', 'id', 'usr_' || n % 1000, 'name', 'Ada'),
           CASE n % 1000 WHEN 8 THEN 'mcp' ELSE 'api' END,
           jsonb_build_object('type', 'freeze', 'id', 'frz_' || n % 1000, 'name', 'x'), '{{}}'
    FROM generate_series(1, {ROWS}) n;
    INSERT INTO audit_seals (organization_id, sequence, entry_id, hash, previous_hash, sealed_at, action, actor_id,
                             target_id, source)
    SELECT organization_id, row_number() OVER (ORDER BY at), id, '', '', at, action, actor_id, target_id, source
    FROM audit_entries;
    ANALYZE;
"""
RARE = {
    "action": AuditFilters(action="freeze.bypassed"),
    "actor": AuditFilters(actor_id="usr_9"),
    "target": AuditFilters(target_id="frz_9"),
    "source": AuditFilters(source="mcp"),
}


class Explained:
    """Has PostgreSQL explain what is read of the audit, with the very values it is read with."""

    def __init__(self, engine: Engine) -> None:
        self.plans: list[str] = []
        event.listen(engine, "before_cursor_execute", self._explain)

    def _explain(self, connection: Any, _cursor: Any, statement: str, values: Any, *_rest: Any) -> None:
        if "audit_entries" in statement and "FROM" in statement and not statement.startswith("EXPLAIN"):
            rows = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, BUFFERS OFF) {statement}", values)
            self.plans.append("\n".join(rows.scalars()))


@pytest.fixture(scope="module")
def filled(module_database: str) -> Iterator[Engine]:
    """Fill a database with entries of which few are wanted, and connect to it as the API does."""
    owner = create_engine(module_database)
    with owner.begin() as connection:
        connection.execute(text(MANY))
    owner.dispose()
    engine = make_engine(module_database, 2)
    yield engine
    engine.dispose()


@pytest.fixture
def uow(filled: Engine) -> Iterator[UnitOfWork]:
    uow_factory = UnitOfWorkFactory(
        filled, DatabaseClock(), RecordedWakeups(), Ports(CursorSecret(b"a secret of the tests"))
    )
    with uow_factory.open(Caller("org_1", ADA, "api", BUSINESS)) as uow:
        yield uow


def plan_of(uow: UnitOfWork, engine: Engine, filters: AuditFilters, order: Any, cursor: str | None = None) -> str:
    """Return how a page is found."""
    explained = Explained(engine)
    page = list_entries(uow, filters, order, cursor, 10)
    event.remove(engine, "before_cursor_execute", explained._explain)
    assert page.data
    assert "Seq Scan" not in explained.plans[-1], explained.plans[-1]
    return explained.plans[-1]


@pytest.mark.parametrize("name", RARE)
def test_newest_entries_of_a_filter_are_found_by_its_index(uow: UnitOfWork, filled: Engine, name: str) -> None:
    assert f"ix_audit_entries_{name}" in plan_of(uow, filled, RARE[name], "desc")


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_entries_of_several_rare_actions_are_found_by_their_index(
    uow: UnitOfWork, filled: Engine, order: Literal["asc", "desc"]
) -> None:
    plan = plan_of(uow, filled, AuditFilters(action="freeze.bypassed,freeze.enforcement_gap"), order)
    assert ("ix_audit_entries_action" if order == "desc" else "ix_audit_seals_action") in plan, plan
    assert max(_read(plan)) <= ROWS // 1000, plan


@pytest.mark.parametrize("name", RARE)
def test_sealed_entries_of_a_filter_are_found_by_its_index(uow: UnitOfWork, filled: Engine, name: str) -> None:
    plan = plan_of(uow, filled, RARE[name], "asc")
    assert f"ix_audit_seals_{name}" in plan
    assert "Sort" not in plan


def test_newest_entries_are_read_in_index_order(uow: UnitOfWork, filled: Engine) -> None:
    plan = plan_of(uow, filled, AuditFilters(), "desc")
    assert "ix_audit_entries_page" in plan
    assert "Sort" not in plan


def test_sealed_entries_are_read_in_index_order_from_any_cursor(uow: UnitOfWork, filled: Engine) -> None:
    cursor = list_entries(uow, AuditFilters(), "asc", None, 100).next_cursor
    for place in (None, cursor):
        plan = plan_of(uow, filled, AuditFilters(), "asc", place)
        assert "ix_audit_seals_page" in plan
        assert "Sort" not in plan


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_page_of_entries_always_has_a_custom_plan(uow: UnitOfWork, order: Literal["asc", "desc"]) -> None:
    for _ in range(15):
        uow.session.execute(text("SET LOCAL plan_cache_mode TO force_generic_plan"))
        list_entries(uow, AuditFilters(action="freeze.started"), order, None, 10)
    counted = "SELECT sum(custom_plans), sum(generic_plans) FROM pg_prepared_statements WHERE statement LIKE :like"
    custom, generic = uow.session.execute(text(counted), {"like": "%FROM audit_entries%"}).one()
    assert (custom > 0, generic) == (True, 0)


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_entries_beyond_the_retention_of_the_plan_are_not_read(uow: UnitOfWork, filled: Engine, order: str) -> None:
    uow.caller = replace(uow.caller, grants=PlanGrants())
    plan = plan_of(uow, filled, AuditFilters(), order)
    assert "rows=20000" not in plan
    assert "Rows Removed by Filter" not in plan or order == "desc"


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_range_of_instants_reads_only_its_entries(
    uow: UnitOfWork, filled: Engine, order: Literal["asc", "desc"]
) -> None:
    now = factories.now()
    filters = AuditFilters(since=now - timedelta(days=100), until=now - timedelta(days=100) + timedelta(minutes=35))
    explained = Explained(filled)
    assert list_entries(uow, filters, order, None, 10).data
    event.remove(filled, "before_cursor_execute", explained._explain)
    for plan in explained.plans:
        assert max(_read(plan)) < 100, plan


def _read(plan: str) -> list[int]:
    """Return how many rows each step of a plan has read."""
    return [int(float(part.split()[0])) for part in plan.split("actual time=")[1:] for part in part.split("rows=")[1:2]]


def test_latest_entries_of_an_action_are_found_by_its_index(
    uow: UnitOfWork, filled: Engine, module_database: str
) -> None:
    owner = create_engine(module_database, isolation_level="AUTOCOMMIT")
    with owner.connect() as connection:  # from now on all entries are of one action, which the planner knows
        connection.execute(text("DELETE FROM audit_entries WHERE action = 'freeze.bypassed'"))
        connection.execute(text("VACUUM ANALYZE audit_entries"))
    owner.dispose()
    explained = Explained(filled)
    shown = summary.show(uow)
    event.remove(filled, "before_cursor_execute", explained._explain)
    assert {entry["action"] for entry in shown["activity"]} == {"freeze.started"}
    assert "ix_audit_entries_action" in explained.plans[-1]
    assert "Rows Removed by Filter" not in explained.plans[-1], explained.plans[-1]
