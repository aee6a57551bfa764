"""Statements that run every few seconds, or for each webhook, find their rows by an index, however many there are."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, TextClause, create_engine, text

from services.enforcement_status import probe_requests
from services.freezes import completion
from services.webhooks import deliveries

pytestmark = pytest.mark.check

HINT = {
    "repositories": [1],
    "names": ["main"],
    "read_back": [False],
    "for_rules": [False],
    "now": "2026-01-01T00:00:00+00:00",
}
MANY = """
    INSERT INTO organizations (id, name, slug, settings, created_at) VALUES ('org_1', 'Acme', 'acme', '{}', now());
    INSERT INTO installations (id, account, permissions, created_at) VALUES (1, 'acme', '{}', now());
    INSERT INTO repositories (id, organization_id, installation_id, github_id, node_id, owner, name, default_branch,
                              private, created_at, synced_at)
    SELECT 'rep_' || n, 'org_1', 1, n, n, 'acme', n, 'main', false, now(), now() FROM generate_series(1, 3000) n;
    INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at)
    SELECT 'wbr_' || n, 'org_1', 'rep_' || n, 'main', 'change-freeze/main', now() FROM generate_series(1, 3000) n;
    INSERT INTO freezes (id, organization_id, reason, scope, source, started_at, ended_at, exceptions_allowed,
                         impact_acknowledged, created_by, enforced_at, released_at)
    SELECT 'frz_' || n, 'org_1', 'long over', '{}', 'manual', now(), now(), true, true, '{}', now(), now()
    FROM generate_series(1, 3000) n;
    ANALYZE;
"""


@pytest.fixture(scope="module")
def connection(module_database: str) -> Iterator[Connection]:
    """Yield a connection to a database with many rows of which few are wanted, and which knows that."""
    engine = create_engine(module_database)
    with engine.connect() as connection:
        connection.exec_driver_sql(MANY)
        yield connection
    engine.dispose()


@pytest.mark.parametrize(
    ("statement", "values", "index"),
    [
        pytest.param(
            completion._UNRELEASED, {"now": HINT["now"]}, "ix_freezes_incomplete", id="freezes without their receipt"
        ),
        pytest.param(deliveries._NAMED, HINT, "ix_repositories_github_id", id="branches that a webhook names"),
        pytest.param(
            probe_requests._OF_REPOSITORY,
            {"github_id": 1, "now": HINT["now"], "reported_at": HINT["now"]},
            "ix_repositories_github_id",
            id="branches of a repository whose rules were changed",
        ),
    ],
)
def test_rows_are_found_by_an_index(
    connection: Connection, statement: TextClause, values: dict[str, Any], index: str
) -> None:
    plan = connection.execute(text(f"EXPLAIN {statement.text}"), values).scalars().all()
    assert any(index in line for line in plan), "\n".join(plan)
