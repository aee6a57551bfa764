"""Clients of the classic service while PostgreSQL is away, or refuses a statement: the older shape, and no details."""

from collections.abc import Iterator
from functools import partial

import httpx
import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url

from app.main import create_app
from tests import factories
from tests.conftest import as_libpq
from tests.handlers.compatibility.requests import FORM, PREFIX, refused, shown
from tests.harness.concurrency import at_once
from tests.harness.contract_assertions import assert_classic_error
from tests.harness.product import product_config, product_parts
from tests.harness.servers import client_of, serving
from tests.harness.sessions import committing

BRANCH = f"{PREFIX}/branches/acme/web/main/"
REQUESTS = [
    ("GET", BRANCH, b""),
    ("POST", BRANCH, b"frozen=true"),
    ("GET", f"{PREFIX}/branches/acme", b""),
    ("POST", f"{PREFIX}/scheduled_freezes", b"account=acme"),
]


@pytest.fixture
def http(own_database: str, redis_url: str) -> Iterator[httpx.Client]:
    """Return a client whose key may freeze the one branch of acme, in a database of the test's own."""
    with committing(own_database) as session:
        acme = factories.organization(session, "Acme", plan="business")
        factories.branch(session, factories.repository(session, acme, "acme/web"))
        token = factories.api_key(session, acme).secret
    config = product_config(own_database, redis_url)
    with serving(create_app(config, product_parts())) as url, client_of(url) as client:
        client.headers.update({"Authorization": f"Bearer {token}", "Content-Type": FORM})
        yield client


@pytest.fixture
def owner(postgres_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(as_libpq(postgres_url), autocommit=True) as connection:
        yield connection


def test_database_that_is_away_is_503_in_the_older_shape_until_it_is_back(
    http: httpx.Client, own_database: str, owner: psycopg.Connection
) -> None:
    shown(http.get(BRANCH))
    name = make_url(own_database).database or ""
    allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    owner.execute(allow.format(sql.Identifier(name), sql.SQL("false")))
    owner.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", [name])
    for answer in at_once(*(partial(http.request, method, path, content=body) for method, path, body in REQUESTS)):
        refused(answer, 503, "database_unavailable")
        assert_classic_error(answer)
        assert name not in answer.text
    owner.execute(allow.format(sql.Identifier(name), sql.SQL("true")))
    assert shown(http.get(BRANCH))["frozen"] is False


def test_unexpected_failure_is_500_in_the_older_shape(http: httpx.Client, own_database: str) -> None:
    shown(http.get(BRANCH))
    with psycopg.connect(as_libpq(own_database), autocommit=True) as connection:
        connection.execute("ALTER TABLE repositories RENAME TO repositories_that_are_gone")
        for method, path, body in REQUESTS[:3]:
            answer = http.request(method, path, content=body)
            refused(answer, 500, "internal_error")
            assert_classic_error(answer)
            assert "repositories" not in answer.text
        connection.execute("ALTER TABLE repositories_that_are_gone RENAME TO repositories")
    shown(http.get(BRANCH))
