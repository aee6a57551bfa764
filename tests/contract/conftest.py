"""The product served over real HTTP, without GitHub: what is asked here never gets that far."""

from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import delete

from app.main import create_app
from models.identity import ThrottledAttempt
from tests.harness.accounts import AccountFixture, make_account_fixture
from tests.harness.product import address_of, product_config, product_parts
from tests.harness.servers import client_of, serving
from tests.harness.sessions import committing
from tests.harness.tenants import Tenant, tenant
from tests.harness.wakeups import RecordedWakeups


@pytest.fixture(scope="session")
def served(shared_database: psycopg.Connection, redis_url: str) -> Iterator[str]:
    config = product_config(address_of(shared_database), redis_url)
    with serving(create_app(config, product_parts(wakeups=RecordedWakeups()))) as url:
        yield url


@pytest.fixture(scope="session")
def served_without_database(redis_url: str) -> Iterator[str]:
    config = product_config("postgresql://nobody@127.0.0.1:1/nothing", redis_url)
    with serving(create_app(config, product_parts(wakeups=RecordedWakeups()))) as url:
        yield url


@pytest.fixture(scope="session")
def served_with_one_request_a_minute(shared_database: psycopg.Connection, redis_url: str) -> Iterator[str]:
    config = product_config(address_of(shared_database), redis_url, rate_limit_organization=1)
    with serving(create_app(config, product_parts(wakeups=RecordedWakeups()))) as url:
        yield url


@pytest.fixture
def http(served: str) -> Iterator[httpx.Client]:
    with client_of(served) as client:
        yield client


@pytest.fixture(scope="module")
def served_accounts(module_database: str, redis_url: str) -> Iterator[AccountFixture]:
    """Serve the product for the tests of one module, with two organisations and a person who owns the first."""
    config = product_config(module_database, redis_url)
    app = create_app(config, product_parts(wakeups=RecordedWakeups()))
    with (
        serving(app) as base_url,
        client_of(base_url) as http,
        committing(module_database) as session,
    ):
        yield make_account_fixture(session, http)


@pytest.fixture
def accounts(served_accounts: AccountFixture) -> AccountFixture:
    """Return the module's accounts, with no attempt counted yet: all requests of tests come from one address."""
    served_accounts.session.execute(delete(ThrottledAttempt))
    served_accounts.http.cookies.clear()
    return served_accounts


@pytest.fixture
def sql(database: str, shared_database: psycopg.Connection) -> psycopg.Connection[Any]:
    return shared_database


@pytest.fixture
def acme(sql: psycopg.Connection[Any], redis: Any) -> Tenant:
    return tenant(sql)
