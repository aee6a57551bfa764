"""PostgreSQL keeps plans of statements over branches, which join a lot: to plan one may take longer than to run it.

It plans a statement each time while the plan for its present parameters looks cheaper than one for any.
"""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from models.organizations import Organization
from models.repositories import WatchedBranch
from services.core.unit_of_work import UnitOfWork
from services.freezes import views
from services.overview import alerts, summary
from services.verdicts.impact import impact_on
from services.verdicts.lights import count_lights, statuses
from tests import factories
from tests.services.conftest import UnitOfWorkOpener

TIMES = 15
"""psycopg prepares a statement at its fifth time, and PostgreSQL chooses at the sixth time after that."""
# Behind each of the few branches of the tests, many like it.
BRANCHES = """
    INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at)
    SELECT 'wbr_' || n, organization_id, repository_id, 'branch-' || n, 'change-freeze/branch-' || n, now()
    FROM watched_branches, generate_series(1, 600) n;
    INSERT INTO branch_enforcement (branch_id, organization_id, light, open_ways, decisive_check, rules_read_at)
    SELECT id, organization_id, 'green', '{}', check_name, now() FROM watched_branches;
    INSERT INTO freezes (id, organization_id, reason, scope, source, started_at, ended_at, ends_at,
                         exceptions_allowed, impact_acknowledged, created_by, enforced_at, released_at)
    SELECT 'frz_' || n, organizations.id, 'Release', '{"type": "organization"}', 'manual',
           now() - n * interval '1 hour', CASE WHEN n > 20 THEN now() END,
           CASE WHEN mod(n, 2) = 0 THEN now() + interval '1 day' END, true, true, '{"type": "system"}',
           now(), CASE WHEN n > 20 THEN now() END
    FROM organizations, generate_series(1, 200) n;
    INSERT INTO freeze_targets (id, organization_id, freeze_id, branch_id, state, operation, generation)
    SELECT 'tgt_' || b.id, b.organization_id, 'frz_' || 1 + mod(row_number() OVER (), 20), b.id, 'applied', 'apply', 1
    FROM watched_branches b;
"""


@pytest.fixture
def database(own_database: str) -> str:
    """Return a database whose tables hold nothing of other tests: what they left makes plans look dearer."""
    return own_database


@pytest.fixture
def branch(acme: Organization, session: Session) -> WatchedBranch:
    """Return one of many branches, each frozen by one of 20 freezes, beside freezes that have ended."""
    branch = factories.watched(session, acme, "acme/web")
    session.connection().exec_driver_sql(BRANCHES)
    session.commit()
    session.connection().exec_driver_sql("ANALYZE")
    session.commit()
    return branch


def test_statements_over_branches_are_not_planned_each_time(
    engine: Engine, unit_of: UnitOfWorkOpener, acme: Organization, branch: WatchedBranch
) -> None:
    branch_id = branch.id
    reads: tuple[Callable[[UnitOfWork], object], ...] = (
        summary.show,
        lambda uow: alerts.list_alerts(uow, alerts.AlertFilters(), None, 50),
        lambda uow: views.show(uow, "frz_1"),
        lambda uow: views.list_freezes(uow, views.FreezeFilters(state="in_force"), None, 10),
        count_lights,
        lambda uow: statuses(uow, [branch_id]),
        lambda uow: impact_on(uow, None),
        lambda uow: impact_on(uow, [branch_id]),
    )
    for read in reads:
        for _ in range(TIMES):
            with unit_of(acme) as uow:
                read(uow)
    with engine.connect() as connection:
        planned = connection.execute(
            text("""
                SELECT statement FROM pg_prepared_statements
                WHERE statement LIKE '%watched_branches b%' AND custom_plans > 6 AND generic_plans = 0
            """)
        )
        assert planned.scalars().all() == []
