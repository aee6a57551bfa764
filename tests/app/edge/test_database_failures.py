"""The edge while PostgreSQL is away, restarts, or has no connection to spare."""

import logging
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest
import sqlalchemy.exc
from sqlalchemy import NullPool, create_engine, text

from app.edge.errors import database_error
from app.main import Parts, create_app
from schemas.contract import Contract
from tests.app.edge.machinery import things
from tests.harness.accounts import code
from tests.harness.product import product_config, product_parts
from tests.harness.servers import client_of, serving
from tests.harness.tenants import Tenant, tenant

BODY = {"name": "a thing", "scope": {"type": "organization"}}


def parts(contract: Contract) -> Parts:
    return product_parts(contract=contract, handlers="tests.app.edge.machinery")


@pytest.fixture
def without_database(small_contract: Contract, redis_url: str) -> Iterator[httpx.Client]:
    config = product_config("postgresql://nobody@127.0.0.1:1/nothing", redis_url)
    with serving(create_app(config, parts(small_contract))) as url, client_of(url) as client:
        yield client


def test_request_without_a_database_is_refused_with_a_short_retry_after(
    without_database: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    from services.identity.api_key_secrets import new_secret

    response = without_database.get("/v1/things", headers={"Authorization": f"Bearer {new_secret()}"})
    assert code(response) == (503, "database_unavailable")
    assert int(response.headers["Retry-After"]) <= 2
    assert without_database.get("/ping").status_code == 200


def test_connections_closed_by_postgresql_are_replaced(
    small_contract: Contract, own_database: str, redis_url: str
) -> None:
    """A database of its own: the connections of other tests' applications stay open."""
    with (
        psycopg.connect(own_database.replace("+psycopg", ""), autocommit=True) as sql,
        serving(create_app(product_config(own_database, redis_url), parts(small_contract))) as url,
        client_of(url, headers={"Authorization": f"Bearer {tenant(sql).key()}"}) as api,
    ):
        assert api.get("/v1/things").status_code == 200
        sql.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
        answers = [api.post("/v1/things", json=BODY, headers={"Idempotency-Key": "one"}) for _ in range(12)]
        assert {one.status_code for one in answers} <= {201, 503}
        assert answers[-1].status_code == 201
        assert sql.execute("SELECT count(*) FROM audit_entries").fetchone() == (1,)


def test_request_is_refused_with_retry_after_when_every_worker_is_busy(
    small_contract: Contract, database: str, redis_url: str, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.slots.MAX_WAIT_SECONDS", 0.1)
    config = product_config(database, redis_url, database_pool_size=1)
    headers = {"Authorization": f"Bearer {acme.key()}"}
    with serving(create_app(config, parts(small_contract))) as url, client_of(url, headers=headers) as client:
        with things.holding(lambda: client.post("/v1/things/a/hold")) as held:
            refused = client.get("/v1/things")
            assert code(refused) == (503, "busy")
            assert int(refused.headers["Retry-After"]) <= 2
            assert client.get("/v1/things/a/peek").status_code == 200
        assert held.result().status_code == 200


@pytest.mark.parametrize(
    ("setting", "statement"),
    [
        ("lock_timeout", "LOCK TABLE audit_entries"),
        ("statement_timeout", "LOCK TABLE audit_entries"),
        ("statement_timeout", "SELECT pg_sleep(9)"),
    ],
)
def test_database_whose_rows_are_in_use_is_busy_and_not_unavailable(
    database: str, setting: str, statement: str
) -> None:
    engine = create_engine(database, poolclass=NullPool)
    with engine.begin() as holding, engine.connect() as waiting:
        holding.execute(text("LOCK TABLE audit_entries"))
        waiting.execute(text(f"SET LOCAL {setting} = '20ms'"))
        with pytest.raises(sqlalchemy.exc.OperationalError) as raised:
            waiting.execute(text(statement))
    found = database_error(raised.value)
    assert found is not None
    assert (found.code, found.retry_after) == ("busy", 1)


def test_pool_without_a_free_connection_is_busy(database: str) -> None:
    engine = create_engine(database, pool_size=1, max_overflow=0, pool_timeout=0.01)
    with engine.connect(), pytest.raises(sqlalchemy.exc.TimeoutError) as raised:
        engine.connect()
    engine.dispose()
    found = database_error(raised.value)
    assert found is not None
    assert found.code == "busy"


def test_unit_of_work_without_its_audit_entry_has_no_effect(api: httpx.Client, sql: psycopg.Connection[Any]) -> None:
    sql.execute("REVOKE INSERT ON audit_entries FROM change_freeze_app")
    try:
        assert api.post("/v1/things", json=BODY, headers={"Idempotency-Key": "one"}).status_code == 500
        assert sql.execute("SELECT count(*) FROM idempotency_keys").fetchone() == (0,)
    finally:
        sql.execute("GRANT INSERT ON audit_entries TO change_freeze_app")
