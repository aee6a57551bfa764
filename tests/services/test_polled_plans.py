"""What pipelines poll reads few blocks, and no large table as a whole, as the service's own role sees it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, LiteralString

import psycopg
import pytest
from sqlalchemy import make_url

from app.edge.authentication import _FIND_KEY
from rules.access.permissions import Principal
from rules.billing.grants import PlanGrants
from rules.errors import ServiceError
from services.compatibility import branches
from services.core.read_context import ReadContext
from services.freezes import state
from tests import factories
from tests.harness.plans import ExplainingReader, explaining

pytestmark = pytest.mark.check

MAX_BLOCKS = 22
"""Six tables, each by an index of two levels, and three where nothing is found: of a frozen branch."""
MAX_BLOCKS_OF_A_FORMER_NAME = 30
"""Two look-ups more, among the twenty repositories that were renamed."""
MAX_BLOCKS_OF_A_CREDENTIAL = 12
RUNS = 8
"""The first ones read the catalogue as well, for a plan that is not kept yet."""
SEED: LiteralString = """
    INSERT INTO organizations (id, name, slug, settings, created_at) VALUES ('org_1', 'Acme', 'acme', '{}', now());
    INSERT INTO installations (id, organization_id, account, permissions, created_at)
    VALUES (1, 'org_1', 'acme', '{}', now());
    INSERT INTO repositories (id, organization_id, installation_id, github_id, node_id, owner, name, default_branch,
                              private, enabled, created_at, synced_at)
    SELECT 'rep_' || n, 'org_1', 1, n, n, 'Acme', 'service-' || n, 'main', false, true, now(), now()
    FROM generate_series(1, 5000) n;
    UPDATE repositories SET name = 'renamed-' || github_id WHERE github_id % 250 = 0;
    INSERT INTO watched_branches (id, organization_id, repository_id, name, check_name, created_at)
    SELECT 'wbr_' || n, 'org_1', 'rep_' || n, 'main', 'change-freeze/main', now() FROM generate_series(1, 5000) n;
    INSERT INTO freezes (id, organization_id, reason, scope, source, started_at, ended_at, exceptions_allowed,
                         impact_acknowledged, created_by, enforced_at, released_at)
    SELECT 'frz_' || n, 'org_1', 'Release', '{}', 'manual', now(), CASE WHEN n > 1 THEN now() END, true, true, '{}',
           now(), CASE WHEN n > 1 THEN now() END
    FROM generate_series(1, 2000) n;
    INSERT INTO freeze_targets (id, organization_id, freeze_id, branch_id, operation, generation)
    SELECT 'tgt_' || n, 'org_1', 'frz_1', 'wbr_' || n, 'apply', 1 FROM generate_series(1, 5000) n;
    INSERT INTO branch_enforcement (branch_id, organization_id, decisive_check, open_ways, rules_read_at)
    SELECT 'wbr_' || n, 'org_1', 'change-freeze/main', '{}', now() FROM generate_series(1, 5000) n;
    INSERT INTO head_checks (repository_id, check_name, head_sha, organization_id, branch_id, conclusion, evaluation,
                             summary_hash, written_at)
    SELECT 'rep_' || n, 'change-freeze/main', 'sha ' || k, 'org_1', 'wbr_' || n, 'failure', 1, '', now()
    FROM generate_series(1, 5000) n, generate_series(1, 4) k;
    INSERT INTO api_keys (id, organization_id, name, scopes, prefix, created_at)
    SELECT 'key_' || n, 'org_1', 'CI', '{freeze:read}', 'frz_live', now() FROM generate_series(1, 5000) n;
    INSERT INTO api_key_secrets (secret_hash, organization_id, api_key_id, created_at)
    SELECT sha256(n::text::bytea), 'org_1', 'key_' || n, now() FROM generate_series(1, 5000) n;
"""
ASKED: dict[str, Callable[[ReadContext], Awaitable[Any]]] = {
    "branch by name": lambda context: state.get_state(context, "acme/SERVICE-77", "main", None, None),
    "repository by name": lambda context: state.get_state(context, "acme/service-77", None, None, None),
    "repository by a former name": lambda context: state.get_state(context, "acme/service-250", None, None, None),
    "branch by id": lambda context: state.get_state(context, None, None, "wbr_77", None),
    "branch for a classic client": lambda context: branches.show(context, "acme", "service-77", "main"),
}


@pytest.fixture(scope="module")
def connection(module_database: str) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    """Yield a connection that reports plans, to a database where all of 5,000 branches are frozen."""
    url = make_url(module_database).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(SEED)
        owner.execute("VACUUM ANALYZE")
    with explaining(url) as connection:
        yield connection


@pytest.mark.parametrize("asked", ASKED)
def test_polled_answer_reads_few_blocks(connection: psycopg.Connection[dict[str, Any]], asked: str) -> None:
    reader = ExplainingReader(connection)
    principal = Principal("api_key", "key_1", "CI", "org_1", PlanGrants(), frozenset({"freeze:read"}))
    context = ReadContext(reader, Any, principal, factories.now(), {})  # type: ignore[arg-type]
    for _ in range(RUNS):
        asyncio.run(_answer(ASKED[asked], context))
    assert reader.plans[-1].scanned == set()
    most = MAX_BLOCKS_OF_A_FORMER_NAME if "former" in asked else MAX_BLOCKS
    assert reader.plans[-1].blocks <= most


def test_name_that_no_repository_has_reads_few_blocks(connection: psycopg.Connection[dict[str, Any]]) -> None:
    reader = ExplainingReader(connection)
    principal = Principal("api_key", "key_1", "CI", "org_1", PlanGrants(), frozenset({"freeze:read"}))
    context = ReadContext(reader, Any, principal, factories.now(), {})  # type: ignore[arg-type]
    for _ in range(RUNS):
        with pytest.raises(ServiceError, match="No enabled repository"):
            asyncio.run(state.get_state(context, "acme/unknown", "main", None, None))
    assert max(plans.blocks for plans in reader.plans[-2:]) <= MAX_BLOCKS


async def _answer(ask: Callable[[ReadContext], Awaitable[Any]], context: ReadContext) -> None:
    assert await ask(context)


def test_credential_is_found_with_few_blocks(connection: psycopg.Connection[dict[str, Any]]) -> None:
    reader = ExplainingReader(connection)
    found = connection.execute("SELECT sha256('77'::bytea) AS hash").fetchone()
    assert found is not None
    for _ in range(RUNS):
        assert asyncio.run(reader.fetch(_FIND_KEY, (found["hash"],)))
    assert reader.plans[-1].scanned == set()
    assert reader.plans[-1].blocks <= MAX_BLOCKS_OF_A_CREDENTIAL
