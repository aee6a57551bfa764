"""The product served over real HTTP, without a code host: what is asked here never gets that far."""

from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest

from app.main import Parts, create_app
from tests.support.product import address_of, product_config
from tests.support.serving import serving
from tests.support.tenants import Tenant, tenant


class NoWakeups:
    def send(self, names: set[str]) -> None:
        pass


@pytest.fixture(scope="session")
def served(shared_database: psycopg.Connection, redis_url: str) -> Iterator[str]:
    config = product_config(address_of(shared_database), redis_url)
    with serving(create_app(config, Parts(wakeups=NoWakeups(), access_log=False))) as url:
        yield url


@pytest.fixture(scope="session")
def served_without_database(redis_url: str) -> Iterator[str]:
    config = product_config("postgresql://nobody@127.0.0.1:1/nothing", redis_url)
    with serving(create_app(config, Parts(wakeups=NoWakeups(), access_log=False))) as url:
        yield url


@pytest.fixture(scope="session")
def served_with_one_request_a_minute(shared_database: psycopg.Connection, redis_url: str) -> Iterator[str]:
    config = product_config(address_of(shared_database), redis_url, rate_limit_organization=1)
    with serving(create_app(config, Parts(wakeups=NoWakeups(), access_log=False))) as url:
        yield url


@pytest.fixture
def http(served: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served, timeout=30) as client:
        yield client


@pytest.fixture
def sql(database: str, shared_database: psycopg.Connection) -> psycopg.Connection[Any]:
    return shared_database


@pytest.fixture
def acme(sql: psycopg.Connection[Any], redis: Any) -> Tenant:
    return tenant(sql)
