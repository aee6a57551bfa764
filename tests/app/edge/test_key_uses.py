"""When a key was last used: written late, seldom, and outside of requests."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest

from app.database import Reads
from app.edge.key_uses import KeyUses
from app.main import create_app
from tests.harness.clock import MovableClock
from tests.harness.concurrency import eventually
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.servers import client_of, serving
from tests.harness.tenants import Tenant, tenant
from tests.harness.wakeups import RecordedWakeups

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)


def last_use(sql: psycopg.Connection[Any], key_id: str) -> datetime | None:
    row = sql.execute("SELECT last_used_at FROM api_keys WHERE id = %s", (key_id,)).fetchone()
    assert row is not None
    found: datetime | None = row[0]
    return found


class Process:
    """An API process that serves one request, and is ended."""

    def __init__(self, sql: psycopg.Connection[Any], redis_url: str) -> None:
        self.clock = MovableClock()
        self._config = product_config(address_of(sql), redis_url)

    @contextmanager
    def running(self) -> Iterator[httpx.Client]:
        parts = product_parts(clock=self.clock, wakeups=RecordedWakeups())
        with serving(create_app(self._config, parts)) as url, client_of(url) as client:
            yield client

    def use(self, *uses: tuple[str, datetime], path: str = "/v1/freezes") -> list[int]:
        """Use secrets at these instants, in one life of the process, and return what was answered."""
        with self.running() as client:
            return [self._use(client, secret, at, path) for secret, at in uses]

    def _use(self, client: httpx.Client, secret: str, at: datetime, path: str) -> int:
        self.clock.at = at
        return client.get(path, headers={"Authorization": f"Bearer {secret}"}).status_code


@pytest.fixture
def process(sql: psycopg.Connection[Any], redis_url: str) -> Process:
    return Process(sql, redis_url)


def test_last_use_of_every_valid_key_is_written_at_shutdown(
    sql: psycopg.Connection[Any], acme: Tenant, process: Process
) -> None:
    used = {
        "a key": (acme.key_with_id(), NOON),
        "another a second later": (acme.key_with_id(), NOON + timedelta(seconds=1)),
        "of another organisation": (tenant(sql, "globex").key_with_id(), NOON),
        "without the scope": (acme.key_with_id("audit:read"), NOON),
        "expired": (acme.key_with_id(expires_at=NOON), NOON),
    }
    _, unused = acme.key_with_id()
    assert process.use(*((secret, at) for (secret, _), at in used.values())) == [200, 200, 200, 403, 401]
    found = {name: last_use(sql, key_id) for name, ((_, key_id), _) in used.items()}
    assert found == {name: at for name, (_, at) in used.items()} | {"expired": None}
    assert last_use(sql, unused) is None


def test_last_use_of_a_key_is_written_soon_while_running(
    sql: psycopg.Connection[Any], acme: Tenant, process: Process
) -> None:
    secret, key_id = acme.key_with_id()
    with process.running() as client:
        client.get("/v1/freezes", headers={"Authorization": f"Bearer {secret}"})
        eventually(lambda: last_use(sql, key_id) is not None, patience=20)


def test_last_use_of_a_key_is_recorded_once_a_minute(
    sql: psycopg.Connection[Any], acme: Tenant, process: Process
) -> None:
    (one, one_id), (other, other_id) = acme.key_with_id(), acme.key_with_id()
    first, second, third = NOON, NOON + timedelta(seconds=59), NOON + timedelta(seconds=60)
    process.use((one, first), (other, first), (one, second), (other, third))
    assert (last_use(sql, one_id), last_use(sql, other_id)) == (first, third)


def test_last_use_of_a_key_never_moves_backwards(sql: psycopg.Connection[Any], acme: Tenant, process: Process) -> None:
    secret, key_id = acme.key_with_id()
    process.use((secret, NOON))
    process.use((secret, NOON - timedelta(minutes=10)))
    assert last_use(sql, key_id) == NOON


def test_unwritten_last_use_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def use_without_a_database() -> set[str]:
        reads = Reads("postgresql://nobody@127.0.0.1:1/nothing", 1)
        uses = KeyUses(reads, batch_seconds=0)
        uses.record("key_1", NOON)
        await uses.close()
        await reads.close()
        return set(uses._recorded)

    caplog.set_level(logging.WARNING)
    assert asyncio.run(use_without_a_database()) == set()
    assert "last use of 1 API keys not written" in caplog.text


def test_function_for_last_uses_is_restricted_to_the_application(sql: psycopg.Connection[Any]) -> None:
    row = sql.execute(
        "SELECT proacl::text, pg_get_userbyid(proowner), prosecdef FROM pg_proc WHERE proname = 'note_key_uses'"
    ).fetchone()
    assert row is not None
    assert "change_freeze_app=X" in row[0]
    assert not row[0].startswith("{=X")
    assert row[1:] == ("change_freeze_worker", True)
