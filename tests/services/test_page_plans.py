"""A page of a list costs what it shows, and not what is stored, as the service's own role sees it."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import psycopg
import pytest
from sqlalchemy import make_url

from services.freezes.search import LONG, OVERLAPPING
from services.pull_requests import forbidden
from tests.harness.plans import Plans, as_role, explaining

pytestmark = pytest.mark.check

SEED: LiteralString = """
    INSERT INTO organizations (id, name, slug, settings, created_at) VALUES ('org_1', 'Acme', 'acme', '{}', now());
    INSERT INTO installations (id, organization_id, account, permissions, created_at)
    VALUES (1, 'org_1', 'acme', '{}', now());
    INSERT INTO repositories (id, organization_id, installation_id, github_id, node_id, owner, name, default_branch,
                              private, enabled, created_at, synced_at)
    SELECT 'rep_' || n, 'org_1', 1, n, n, 'acme', 'service-' || n, 'main', false, true, now(), now()
    FROM generate_series(1, 2000) n;
    INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at)
    SELECT 'wbr_' || n, 'org_1', 'rep_' || n, 'main', 'change-freeze/main', now() FROM generate_series(1, 2000) n;
    INSERT INTO pull_requests (id, organization_id, repository_id, number, title, author, url, base_branch, head_sha,
                               state, merge_rank, created_at, seen_at)
    SELECT 'pul_' || n || '_' || k, 'org_1', 'rep_' || n, k, 'Change', 'ada', '', 'main', 'sha ' || k,
           CASE WHEN k <= 20 THEN 'open' ELSE 'closed' END, 1, now(), now()
    FROM generate_series(1, 2000) n, generate_series(1, 40) k;
    INSERT INTO freezes (id, organization_id, reason, scope, source, started_at, ended_at, exceptions_allowed,
                         impact_acknowledged, created_by, released_at)
    SELECT 'frz_' || n, 'org_1', 'Release', '{}', 'manual', timestamptz '2020-01-01' + n * interval '1 hour',
           timestamptz '2020-01-01' + n * interval '1 hour' + CASE WHEN n % 1000 = 0 THEN interval '50 days'
           ELSE interval '5 hours' END, true, true, '{}', now()
    FROM generate_series(1, 30000) n;
"""


@pytest.fixture(scope="module")
def connection(module_database: str) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    """Yield a connection that reports plans, to a database with many pull requests and freezes."""
    url = make_url(module_database).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(SEED)
        owner.execute("VACUUM ANALYZE")
    with explaining(url) as connection:
        yield connection


def plans_of(connection: psycopg.Connection[dict[str, Any]], statement: str, **values: Any) -> tuple[Plans, int]:
    """Return the plans of a statement of the service, and how many rows it found."""
    sql: Any = re.sub(r"(?<!:):([a-z]+)", r"%(\1)s", statement)
    with as_role(connection, "change_freeze_app", "org_1") as plans:
        rows = connection.execute(sql, values).fetchall()
    return plans, len(rows)


def test_freezes_of_a_month_are_found_without_reading_the_others(
    connection: psycopg.Connection[dict[str, Any]],
) -> None:
    since = datetime(2021, 3, 1, tzinfo=UTC)
    values = {"since": since, "until": since + timedelta(days=31), "earliest": since - LONG, "organization": "org_1"}
    plans, rows = plans_of(connection, OVERLAPPING.text, **values)
    assert rows == 31 * 24 + 4 + 1
    assert "freezes" not in plans.scanned
    assert plans.blocks < 200


@pytest.mark.parametrize("position", [("", "", 0), ("rep_700", "main", 7)], ids=["first", "later"])
def test_page_of_forbidden_pull_requests_reads_few_blocks(
    connection: psycopg.Connection[dict[str, Any]], position: tuple[str, str, int]
) -> None:
    branches = [f"wbr_{number}" for number in range(1, 2001)]
    named = dict(zip(("repository", "branch", "number"), position, strict=True))
    plans, rows = plans_of(connection, forbidden._OPEN.text, branches=branches, size=51, **named)
    assert rows == 51
    assert "pull_requests" not in plans.scanned
    assert plans.blocks < 400
