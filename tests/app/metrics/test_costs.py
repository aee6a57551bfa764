"""Metrics cost what waits, however much is done: they are read every few seconds, in a second at most."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, create_engine

from app.database import WORKER_ROLE, make_engine
from app.metrics.readings import reads_of
from jobs.registry import queues_of
from services.core.clock import DatabaseClock
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from tests.app.metrics.test_readings import CONFIGURED
from tests.harness.blocks import Blocks
from tests.harness.wakeups import RecordedWakeups

pytestmark = pytest.mark.check

FEW, MANY = 1_000, 6_000
WAITING = 200
"""Rows of each table that wait, the newest; the others are done."""
GROWING = {
    "audit_entries",
    "audit_seals",
    "branch_enforcement",
    "branch_tips",
    "checks",
    "enforcement_setups",
    "freeze_targets",
    "freezes",
    "github_api_usage",
    "mails",
    "slack_messages",
    "stripe_customers",
    "watched_branches",
    "webhook_deliveries",
    "webhook_messages",
}
SCENE = """
    INSERT INTO organizations (id, name, slug, settings, created_at) VALUES ('org_1', 'Acme', 'acme', '{}', now());
    INSERT INTO installations (id, organization_id, account, permissions, created_at)
    VALUES (1, 'org_1', 'acme', '{}', now());
    INSERT INTO repositories (id, organization_id, installation_id, github_id, node_id, owner, name, default_branch,
                              private, created_at, synced_at)
    VALUES ('rep_1', 'org_1', 1, 1, '1', 'acme', 'web', 'main', false, now(), now());
    INSERT INTO webhook_endpoints (id, organization_id, name, url, events, remind_before, enabled, created_by,
                                   created_at, updated_at)
    VALUES ('whk_1', 'org_1', 'x', 'https://x.test', '{}', '{}', true, '{}', now(), now());
    INSERT INTO slack_subscriptions (id, organization_id, channel_id, channel_name, events, remind_before, created_by,
                                     created_at)
    VALUES ('sls_1', 'org_1', 'C1', 'x', '{}', '{}', '{}', now());
    INSERT INTO notification_destinations (id, organization_id, channel, sequence, due_at)
    VALUES ('whk_1', 'org_1', 'webhook', 1000000, now()), ('sls_1', 'org_1', 'slack', 1000000, now());
"""
# Rows are wide: to scan some thousand narrow ones would be the best plan.
ROWS = """
    INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at)
    SELECT 'wbr_' || n, 'org_1', 'rep_1', n || long || long, 'change-freeze/' || n, now() FROM rows;
    UPDATE checks c SET wanted_generation = waits::int, last_error_message = long, due_at = due, outdated_since = due
    FROM rows WHERE c.branch_id = 'wbr_' || n;
    INSERT INTO branch_tips (branch_id, organization_id, sha, seen_at, last_error_message, due_at)
    SELECT 'wbr_' || n, 'org_1', md5(n::text), now(), long, due FROM rows;
    INSERT INTO branch_enforcement (branch_id, organization_id, last_error_message, due_at)
    SELECT 'wbr_' || n, 'org_1', long, due FROM rows;
    INSERT INTO enforcement_setups (id, organization_id, scope, state, requested_by, created_at, due_at)
    SELECT 'set_' || n, 'org_1', to_jsonb(long), 'applying', '{}', now(), CASE WHEN n = 1 THEN due END FROM rows;
    INSERT INTO freezes (id, organization_id, reason, scope, source, started_at, ended_at, exceptions_allowed,
                         impact_acknowledged, created_by, enforced_at, released_at)
    SELECT 'frz_' || n, 'org_1', long, '{}', 'manual', at, CASE WHEN waits THEN NULL ELSE now() END, true, true, '{}',
           now(), now() FROM rows;
    INSERT INTO freeze_targets (id, organization_id, freeze_id, branch_id, generation, operation, last_error_message)
    SELECT 'tgt_' || n, 'org_1', 'frz_' || n, 'wbr_' || n, 1, CASE WHEN waits THEN 'apply' ELSE 'release' END, long
    FROM rows;
    INSERT INTO webhook_deliveries (delivery_id, event, payload, received_at, due_at)
    SELECT n, 'push', to_jsonb(long), at, due FROM rows;
    INSERT INTO webhook_messages (id, organization_id, endpoint_id, event, body, created_at, due_at)
    SELECT 'msg_' || n, 'org_1', 'whk_1', 'freeze.started', long, at, due FROM rows;
    INSERT INTO slack_messages (id, organization_id, subscription_id, kind, subjects, facts, created_at, due_at)
    SELECT 'slm_' || n, 'org_1', 'sls_1', 'event', '{}', to_jsonb(long), at, due FROM rows;
    INSERT INTO mails (id, recipient, template, encrypted_values, created_at, due_at)
    SELECT 'mal_' || n, 'ada@example.com', 'verify_email', long::bytea, at, due FROM rows;
    INSERT INTO stripe_customers (id, invoices, created_at, due_at)
    SELECT 'cus_' || n, to_jsonb(long), at, due FROM rows;
    INSERT INTO audit_entries (id, organization_id, at, action, actor, source, target, details)
    SELECT 'aud_' || n, 'org_1', at, 'session.created', '{}', 'system', '{}', to_jsonb(long) FROM rows;
    DELETE FROM audit_unsealed USING rows WHERE entry_id = 'aud_' || n AND NOT waits;
    INSERT INTO audit_seals (organization_id, sequence, entry_id, hash, previous_hash, sealed_at, action, source)
    SELECT 'org_1', 1000000 - n, 'aud_' || n, '', '', at, 'session.created', 'system' FROM rows;
    INSERT INTO github_api_usage (installation_id, at, points, content)
    SELECT 1, at - interval '1 hour', 1, 1 FROM rows;
"""


def add(connection: Connection, first: int, last: int) -> None:
    """Add rows to all tables that grow: those that wait, and older ones that are done."""
    numbers = f"""
        CREATE TEMPORARY TABLE rows AS
        SELECT n, n <= {WAITING} AS waits, now() - n * interval '1 minute' AS at, repeat('x', 600) AS long,
               CASE WHEN n <= {WAITING} THEN now() - n * interval '1 second' END AS due
        FROM generate_series({first}, {last}) n;
    """
    connection.exec_driver_sql(f"{numbers} {ROWS} DROP TABLE rows;")
    connection.exec_driver_sql("VACUUM ANALYZE")


@pytest.fixture
def blocks() -> Blocks:
    return Blocks()


@pytest.fixture
def calls(module_database: str, blocks: Blocks) -> Iterator[dict[str, Callable[[], object]]]:
    """Return the reads of all metrics."""
    engine = blocks.watch(make_engine(module_database, 1, WORKER_ROLE))
    jobs = UnitOfWorkFactory(engine, DatabaseClock(), RecordedWakeups(), CONFIGURED)

    def call_of(name: str) -> Callable[[], object]:
        def call() -> object:
            with jobs.open(SYSTEM_CALLER, read_only=True) as uow:
                return list(reads_of(queues_of(CONFIGURED))[name](uow))

        return call

    yield {name: call_of(name) for name in reads_of(queues_of(CONFIGURED))}
    engine.dispose()


@contextmanager
def connected(database: str) -> Iterator[Connection]:
    engine = create_engine(database, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_rows_that_are_done_cost_the_metrics_nothing(
    module_database: str, blocks: Blocks, calls: dict[str, Callable[[], object]]
) -> None:
    with connected(module_database) as connection:
        connection.exec_driver_sql(SCENE)
        add(connection, 1, FEW)
        before = {name: blocks.of(call) for name, call in calls.items()}
        add(connection, FEW + 1, MANY)
    for name, call in calls.items():
        number = blocks.of(call)
        plans = "\n".join(blocks.plans)
        assert set(re.findall(r"Seq Scan on (\w+)", plans)) & GROWING == set(), plans
        assert number <= 2 * before[name] + 40, plans
        compared = sum(map(int, re.findall(r"Rows Removed by Join Filter: (\d+)", plans)))
        assert compared <= 10 * WAITING, f"rows are compared with each other\n{plans}"
