"""The small contract's application, served over real HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from app.main import create_app
from schemas.contract import Contract, parse_contract
from tests.app.edge.machinery import things
from tests.harness.clock import MovableClock
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.served_fixtures import clock, clock_of_session, wakeups, wakeups_of_session
from tests.harness.servers import client_of, serving
from tests.harness.tenants import Tenant, tenant
from tests.harness.wakeups import RecordedWakeups

__all__ = ["clock", "clock_of_session", "wakeups", "wakeups_of_session"]


@pytest.fixture(scope="session")
def small_contract() -> Contract:
    return parse_contract((Path(__file__).parent / "edge" / "machinery" / "contract.yaml").read_bytes())


@pytest.fixture(scope="session")
def served(
    shared_database: psycopg.Connection,
    redis_url: str,
    small_contract: Contract,
    clock_of_session: MovableClock,
    wakeups_of_session: RecordedWakeups,
) -> Iterator[str]:
    config = product_config(
        address_of(shared_database),
        redis_url,
        rate_limit_organization=100_000,
        rate_limit_writes=50_000,
    )
    parts = product_parts(
        contract=small_contract, handlers="tests.app.edge.machinery", clock=clock_of_session, wakeups=wakeups_of_session
    )
    with serving(create_app(config, parts)) as url:
        yield url


@pytest.fixture
def http(served: str) -> Iterator[httpx.Client]:
    with client_of(served) as client:
        yield client


@pytest.fixture
def sql(database: str, shared_database: psycopg.Connection) -> psycopg.Connection[Any]:
    return shared_database


@pytest.fixture
def acme(sql: psycopg.Connection[Any], redis: Any) -> Tenant:
    things.SEEN.clear()
    return tenant(sql)


@pytest.fixture
def api(http: httpx.Client, acme: Tenant) -> httpx.Client:
    """Return a client with a key of all scopes."""
    http.headers["Authorization"] = f"Bearer {acme.key()}"
    return http
