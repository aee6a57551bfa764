"""Readers and the sweeper agree on which windows are due, and readers find them by an index."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, delete, event, text
from sqlalchemy.orm import Session

from app.database import APP_ROLE, WORKER_ROLE, make_engine
from models.due_windows import DUE_WINDOWS, due_of_organization
from models.freezes import Freeze, FreezeTarget
from models.installations import Installation
from models.organizations import Organization
from models.queries import covering_freezes
from models.schedules import CancelledWindow, Occurrence, Schedule
from rules.ids import id_of_freeze
from tests import factories
from tests.services.schedules.windows import Planned

HOUR = timedelta(hours=1)
SCOPES: list[dict[str, Any]] = [
    {"type": "organization"},
    {"type": "organization", "branches": ["release/*"]},
    {"type": "glob", "patterns": ["acme/w*"]},
    {"type": "glob", "patterns": ["other/*"]},
    {"type": "glob", "patterns": ["["]},
    {"type": "repositories", "repositories": ["acme/api"]},
    {"type": "repositories", "repositories": ["ACME/Web", "acme/gone"]},
    {"type": "repositories", "repositories": ["acme/gone"]},
    {"type": "branch", "repository": "acme/web", "branch": "main"},
    {"type": "branch", "repository": "acme/web", "branch": "unwatched"},
]
SCHEDULES = st.fixed_dictionaries(
    {"scope": st.sampled_from(SCOPES), "enabled": st.sampled_from([True] * 4 + [False]), "deleted": st.booleans()}
)
WINDOWS = st.fixed_dictionaries(
    {
        "start": st.integers(-3, 1),
        "length": st.integers(1, 3),
        "skipped": st.sampled_from([False] * 4 + [True]),
        "missed": st.sampled_from([False] * 4 + [True]),
    }
)


def clear(session: Session) -> None:
    session.rollback()
    for model in (FreezeTarget, Occurrence, Freeze, CancelledWindow, Schedule):
        session.execute(delete(model))
    session.execute(text("DELETE FROM attention_items"))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(SCHEDULES, st.lists(WINDOWS, max_size=3, unique_by=lambda one: one["start"])), max_size=3),
    st.sampled_from(["active", "active", "suspended", "removed"]),
    st.sampled_from([False, False, False, True]),
)
def test_sweeper_begins_exactly_the_windows_that_readers_count_as_frozen(
    planned: Planned, drawn: list[tuple[dict[str, Any], list[dict[str, Any]]]], app: str, deleted: bool
) -> None:
    session, acme, now = planned.session, planned.acme, planned.starts_at
    clear(session)
    session.query(Installation).update({"state": app})
    session.get_one(Organization, acme.id).deleted_at = now if deleted else None
    for columns, windows in drawn:
        of = {"scope": columns["scope"], "enabled": columns["enabled"]}
        schedule = factories.schedule(session, acme, deleted_at=now if columns["deleted"] else None, **of)
        for window in windows:
            start = now + window["start"] * HOUR
            end, skip_reason = start + window["length"] * HOUR, "asked" if window["skipped"] else None
            settled = {"skip_reason": skip_reason, "missed_at": now if window["missed"] else None}
            factories.occurrence(session, schedule, starts_at=start, ends_at=end, **settled)
    session.commit()
    planned.come()
    ids = [planned.web.id, planned.api.id]
    due = due_of_organization(session, acme.id, now)
    seen = {
        branch_id: {one.id for one in freezes} for branch_id, freezes in covering_freezes(session, ids, now).items()
    }
    planned.begin()
    begun = planned.freezes()
    assert {window.freeze_id: set(branch_ids) for window, branch_ids in due} == {
        freeze.id: planned.covered(freeze) for freeze in begun
    }
    assert all(freeze.id == id_of_freeze(freeze.occurrence_id or "") for freeze in begun)
    after = {
        branch_id: {one.id for one in freezes} for branch_id, freezes in covering_freezes(session, ids, now).items()
    }
    assert after == seen
    assert due_of_organization(session, acme.id, now) == []


MANY = """
    INSERT INTO organizations (id, name, slug, settings, created_at)
    SELECT 'org_' || n, n, n, '{}', now() FROM generate_series(1, 400) n;
    INSERT INTO schedules (id, organization_id, name, scope, timezone, recurrence, wall_clock_window, reason,
                           exceptions_allowed, enabled, allow_overlap, source, created_by, created_at, updated_at)
    SELECT 'sch_' || n, 'org_' || 1 + n %% 400, n, '{"type": "organization"}', 'UTC', '{}', '{}', 'nobody here', true,
           true, true, 'manual', '{}', now(), now() FROM generate_series(1, 800) n;
    INSERT INTO occurrences (id, organization_id, schedule_id, starts_at, ends_at, started_at)
    SELECT s.id || '_' || day, s.organization_id, s.id, at, at + interval '1 hour', CASE WHEN day < 0 THEN at END
    FROM schedules s, generate_series(-60, 20) day, LATERAL (SELECT now() + (day + 0.5) * interval '1 day' AS at) one;
    INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at)
    SELECT 'wbr_' || n, 'org_' || 1 + n %% 400, 'rep_' || n, 'main', 'change-freeze/main', now()
    FROM generate_series(1, 2000) n;
    ANALYZE;
"""


@pytest.fixture(scope="module")
def many(module_database: str) -> str:
    """Return the address of a database with windows of months, nearly all over, and no due one."""
    owner = create_engine(module_database)
    with owner.connect() as connection:
        connection.exec_driver_sql("SET session_replication_role = replica")
        connection.exec_driver_sql(MANY, {})
        connection.commit()
    owner.dispose()
    return module_database


@pytest.mark.check
@pytest.mark.parametrize("role", [APP_ROLE, WORKER_ROLE])
def test_due_windows_are_read_by_an_index(many: str, role: str) -> None:
    engine = make_engine(many, 1, role=role)
    statements: list[tuple[str, Any]] = []

    def remember(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "occurrences" in statement and not statement.startswith("EXPLAIN"):
            statements.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", remember)
    now = factories.now()
    with engine.connect().execution_options(organization_id="org_1") as connection, Session(connection) as session:
        assert due_of_organization(session, "org_1", now) == []
        covering_freezes(session, [f"wbr_{400 * number}" for number in range(1, 6)], now)
        session.execute(text(f"SELECT * FROM {DUE_WINDOWS} d"), {"organization": "org_1", "now": now})
        assert len(statements) == 3
        for statement, parameters in statements:
            plan = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars().all()
            assert any("ix_occurrences_" in line for line in plan), "\n".join(plan)
            for of_all in ("Seq Scan on occurrences", "ix_occurrences_page", "uq_occurrences_starts_at"):
                assert not any(of_all in line for line in plan), "\n".join(plan)
    engine.dispose()
