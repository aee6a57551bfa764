"""PostgreSQL that hangs or restarts under the API: quick refusals, quick recovery, nothing left over."""

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import psycopg
import pytest

from app import database, database_connections
from app.commands.migrate import migrate
from app.database import READINESS_TIMEOUT_SECONDS
from app.database_connections import CONNECT_TIMEOUT_SECONDS
from app.main import create_app
from tests.faults.recovery.quick_faults import SHARED
from tests.harness.concurrency import Task, at_once
from tests.harness.product import product_config, product_parts
from tests.harness.servers import client_of, serving
from tests.harness.tenants import Tenant, tenant
from tests.harness.wakeups import RecordedWakeups
from tools.embedded import EmbeddedPostgres

POOL = 4
READINESS_SECONDS = SHARED * 2.0
REQUEST_SECONDS = SHARED * 5.0
RECOVERY_SECONDS = SHARED * 2.0


@pytest.fixture(scope="module")
def postgres(server_home: Path) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(server_home / "postgres-that-hangs", throwaway=True) as server:
        migrate(server.ensure_database("hanging"))
        yield server


@pytest.fixture(scope="module")
def acme(postgres: EmbeddedPostgres) -> Iterator[Tenant]:
    with psycopg.connect(postgres.url("hanging"), autocommit=True) as connection:
        yield tenant(connection)


@pytest.fixture
def http(
    postgres: EmbeddedPostgres, redis_url: str, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> Iterator[httpx.Client]:
    monkeypatch.setattr(database, "READINESS_TIMEOUT_SECONDS", READINESS_TIMEOUT_SECONDS)
    monkeypatch.setattr(database_connections, "CONNECT_TIMEOUT_SECONDS", CONNECT_TIMEOUT_SECONDS)
    config = product_config(postgres.url("hanging"), redis_url, database_pool_size=POOL)
    with (
        serving(create_app(config, product_parts(wakeups=RecordedWakeups()))) as url,
        client_of(url, limits=httpx.Limits(max_connections=100)) as client,
    ):
        client.headers["Authorization"] = f"Bearer {acme.key()}"
        client.headers["Test-Session"] = acme.session()
        warm_up(client)
        yield client


def warm_up(http: httpx.Client) -> None:
    """Have every connection of the pools opened."""
    for answer in at_once(*[partial(call, http) for call in CALLS * 2 * POOL]):
        assert answer.status_code in {200, 201, 422}, answer.text


CALLS: list[Callable[[httpx.Client], httpx.Response]] = [
    lambda http: http.get("/v1/freeze-state?organization=current"),
    lambda http: http.get("/v1/freezes"),
    lambda http: http.post("/v1/freezes", json={"scope": {"type": "organization"}, "reason": "A freeze of nothing"}),
    lambda http: http.get("/v1/me", headers={"Authorization": f"Bearer {http.headers['Test-Session']}"}),
]
"""Reads on the event loop, reads and writes in threads, and an operation of people, which has threads of its own."""


def _ready(http: httpx.Client) -> httpx.Response:
    return http.get("/readyz")


def timed(call: Callable[[httpx.Client], httpx.Response], http: httpx.Client) -> tuple[float, httpx.Response]:
    began = time.monotonic()
    answer = call(http)
    return time.monotonic() - began, answer


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("error", {}).get("code", "")


def sessions(acme: Tenant) -> int:
    row = acme.connection.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = 'hanging'").fetchone()
    assert row is not None
    return int(row[0])


def wait_until_served(http: httpx.Client) -> float:
    """Return after how many seconds every kind of request is served again."""
    began = time.monotonic()
    while any(call(http).status_code == 503 for call in (*CALLS, _ready)):
        assert time.monotonic() - began < 30
        time.sleep(0.05)
    return time.monotonic() - began


@pytest.mark.check
@pytest.mark.slow(9)
def test_hanging_database_is_reported_in_seconds_and_leaves_nothing_behind(
    postgres: EmbeddedPostgres, http: httpx.Client, acme: Tenant
) -> None:
    connections = 0
    for _ in range(5):  # one round may not need every connection at once
        warm_up(http)
        connections = max(connections, sessions(acme))
    threads: list[int] = []
    kept: list[int] = []
    for _ in range(2):
        with postgres.paused():
            ready = Task(partial(timed, _ready, http))
            first = [Task(partial(timed, call, http)) for call in CALLS for _ in range(8)]
            time.sleep(1)
            later = [Task(partial(timed, call, http)) for call in CALLS]
            seconds, answer = ready.result()
            assert (code(answer), seconds <= READINESS_SECONDS) == ((503, "database_unavailable"), True), seconds
            for seconds, answer in (asked.result() for asked in (*first, *later)):
                assert (code(answer), seconds <= REQUEST_SECONDS) == ((503, "database_unavailable"), True), seconds
            seconds, answer = timed(_ready, http)
            assert (answer.status_code, seconds <= READINESS_SECONDS) == (503, True), seconds
        assert wait_until_served(http) <= RECOVERY_SECONDS
        warm_up(http)
        threads.append(threading.active_count())  # the first outage may start threads that pools keep; a second none
        kept.append(sessions(acme))  # and so with connections, of which warming up may not have needed all
    deadline = time.monotonic() + 10
    while sessions(acme) > max(connections, kept[0]) or threading.active_count() > threads[0]:
        names = sorted(thread.name for thread in threading.enumerate())
        assert time.monotonic() < deadline, (sessions(acme), connections, kept, threads, names)
        time.sleep(0.1)


def test_restarted_database_is_used_at_once(postgres: EmbeddedPostgres, http: httpx.Client, acme: Tenant) -> None:
    acme.connection.close()
    postgres.stop()
    for call in CALLS:
        seconds, answer = timed(call, http)
        assert (code(answer), seconds <= REQUEST_SECONDS) == ((503, "database_unavailable"), True), seconds
    postgres.start()
    for _ in range(3):
        warm_up(http)
