"""Connections to PostgreSQL: whose rows they see, what they are refused for, and how dead ones are found."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy.exc
from psycopg import sql as composing
from sqlalchemy import Engine, make_url, text
from sqlalchemy.orm import Session

from app.database import APP_ROLE, IDENTITY_ROLE, WORKER_ROLE, Reads, make_engine
from app.database_connections import RELEASE_REVISION, DatabaseNotReadyError
from rules.access.permissions import SYSTEM
from services.core.clock import DatabaseClock
from services.core.unit_of_work import Caller, UnitOfWorkFactory
from tests.harness.postgres_proxies import Proxy, postgres_proxy
from tests.harness.tenants import Tenant, tenant
from tests.harness.wakeups import RecordedWakeups

SETTINGS = """
    SELECT current_user::text AS role, current_setting('statement_timeout') AS statement_timeout,
           current_setting('idle_in_transaction_session_timeout') AS idle_timeout,
           current_setting('timezone') AS timezone
"""
ORGANIZATIONS = "SELECT id FROM organizations ORDER BY id"
END_OTHERS = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
LOGIN = "change_freeze_test_login"


@pytest.fixture
def sql(own_database: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the database's superuser."""
    with psycopg.connect(as_libpq(own_database), autocommit=True) as connection:
        yield connection


def as_libpq(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@pytest.fixture
def acme(sql: psycopg.Connection[Any]) -> Tenant:
    return tenant(sql)


@pytest.fixture
def globex(sql: psycopg.Connection[Any]) -> Tenant:
    return tenant(sql, "globex")


@pytest.fixture
def login(own_database: str, sql: psycopg.Connection[Any]) -> Iterator[str]:
    """The address of the database for a login that owns nothing and inherits nothing."""
    name = composing.Identifier(LOGIN)
    sql.execute(composing.SQL("CREATE ROLE {} LOGIN NOINHERIT PASSWORD 'not a secret'").format(name))
    yield make_url(own_database).set(username=LOGIN, password="not a secret").render_as_string(hide_password=False)
    sql.execute(composing.SQL("DROP ROLE {}").format(name))


@contextmanager
def engine_of(url: str, role: str = APP_ROLE) -> Iterator[Engine]:
    engine = make_engine(url, 2, role)
    try:
        yield engine
    finally:
        engine.dispose()


def fetched(url: str, *queries: tuple[str, str | None]) -> list[list[dict[str, Any]]]:
    """Return the rows of each query, run for an organisation on the event loop, one after the other."""

    async def fetch() -> list[list[dict[str, Any]]]:
        reads = Reads(url, 1)
        try:
            return [await reads.fetch(query, (), organization) for query, organization in queries]
        finally:
            await reads.close()

    return asyncio.run(fetch())


def verified(url: str) -> None:
    """Verify the database as `/readyz` does."""

    async def verify() -> None:
        reads = Reads(url, 1)
        try:
            await reads.verify()
        finally:
            await reads.close()

    asyncio.run(verify())


@pytest.fixture(params=[False, True], ids=["own sessions", "shared sessions"])
def proxy(own_database: str, request: pytest.FixtureRequest) -> Iterator[Proxy]:
    with postgres_proxy(own_database, shares_sessions=request.param) as proxy:
        yield proxy


class TestProxiesThatDropOptions:
    def test_unit_of_work_has_its_role_and_timeouts(self, proxy: Proxy) -> None:
        for role in (APP_ROLE, WORKER_ROLE, IDENTITY_ROLE):
            with engine_of(proxy.url, role) as engine:
                factory = UnitOfWorkFactory(engine, DatabaseClock(), RecordedWakeups())
                for _ in range(2):
                    with factory.open(Caller(None, SYSTEM, "system")) as uow:
                        idle = "4s" if role == WORKER_ROLE else "30s"
                        assert tuple(uow.session.execute(text(SETTINGS)).one()) == (role, "15s", idle, "UTC")

    def test_reads_have_their_role_and_timeouts(self, proxy: Proxy, acme: Tenant) -> None:
        expected = {"role": APP_ROLE, "statement_timeout": "15s", "idle_timeout": "30s", "timezone": "UTC"}
        for rows in fetched(proxy.url, (SETTINGS, None), (SETTINGS, acme.id), (SETTINGS, acme.id), (SETTINGS, None)):
            assert rows == [expected]

    def test_reads_and_units_of_work_see_their_organization_only(
        self, proxy: Proxy, acme: Tenant, globex: Tenant
    ) -> None:
        async def read() -> None:
            first, second = Reads(proxy.url, 1), Reads(proxy.url, 1)
            for _ in range(3):
                assert await first.fetch(ORGANIZATIONS, (), acme.id) == [{"id": acme.id}]
                assert await second.fetch(ORGANIZATIONS, (), globex.id) == [{"id": globex.id}]
                assert await first.fetch(ORGANIZATIONS, (), "") == []
            await first.close()
            await second.close()

        with engine_of(proxy.url) as engine, engine_of(proxy.url, WORKER_ROLE) as jobs:
            for owner in (acme, globex):
                opened = UnitOfWorkFactory(engine, DatabaseClock(), RecordedWakeups()).open(
                    Caller(owner.id, SYSTEM, "api")
                )
                with opened as uow:
                    assert uow.session.scalars(text(ORGANIZATIONS)).all() == [owner.id]
                with Session(jobs) as session:
                    assert len(session.scalars(text(ORGANIZATIONS)).all()) == 2
            asyncio.run(read())
            with Session(engine) as session:
                assert session.scalars(text(ORGANIZATIONS)).all() == []

    def test_shared_session_keeps_nothing_of_a_transaction(self, own_database: str, acme: Tenant) -> None:
        with postgres_proxy(own_database, shares_sessions=True) as proxy, engine_of(proxy.url, WORKER_ROLE) as engine:
            with Session(engine) as session:
                session.execute(text(ORGANIZATIONS))
            fetched(proxy.url, (ORGANIZATIONS, acme.id))
            with psycopg.connect(as_libpq(proxy.url)) as next_client:
                query = "SELECT current_user = session_user, current_setting('app.organization_id', true)"
                assert next_client.execute(query).fetchone() == (True, "")


class TestRoles:
    def test_login_that_owns_nothing_serves_every_role(
        self, login: str, sql: psycopg.Connection[Any], acme: Tenant
    ) -> None:
        sql.execute(f"GRANT {APP_ROLE}, {WORKER_ROLE}, {IDENTITY_ROLE} TO {LOGIN}")
        for role in (APP_ROLE, WORKER_ROLE, IDENTITY_ROLE):
            with engine_of(login, role) as engine, Session(engine) as session:
                assert session.scalar(text("SELECT current_user")) == role
        assert fetched(login, (ORGANIZATIONS, acme.id)) == [[{"id": acme.id}]]
        verified(login)

    def test_login_that_may_not_take_the_role_is_refused(self, login: str) -> None:
        with pytest.raises(DatabaseNotReadyError, match=f"may not take the role {APP_ROLE}"):
            verified(login)
        with engine_of(login) as engine, pytest.raises(sqlalchemy.exc.OperationalError, match="may not take"):
            engine.connect()

    @pytest.mark.parametrize(
        "right",
        [
            "ALTER ROLE {} SUPERUSER",
            "ALTER ROLE {} BYPASSRLS",
            "ALTER TABLE freezes OWNER TO {}",
            "GRANT {owner} TO {}",
        ],
    )
    def test_role_exempt_from_row_level_security_is_refused(
        self, own_database: str, login: str, sql: psycopg.Connection[Any], right: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sql.execute(f"GRANT SELECT ON alembic_version TO {LOGIN}")
        owner = str(make_url(own_database).username)
        sql.execute(right.format(LOGIN, owner=owner))
        monkeypatch.setattr("app.database.APP_ROLE", LOGIN)
        try:
            with pytest.raises(DatabaseNotReadyError, match="exempt from row-level security"):
                verified(own_database)
            with (
                engine_of(own_database, LOGIN) as engine,
                pytest.raises(sqlalchemy.exc.OperationalError, match="exempt"),
            ):
                engine.connect()
        finally:
            sql.execute(f"REASSIGN OWNED BY {LOGIN} TO {owner}")
            sql.execute(f"DROP OWNED BY {LOGIN}")


class TestSchema:
    def test_database_without_schema_is_refused_with_the_command_to_run(self, unmigrated_database: str) -> None:
        with pytest.raises(DatabaseNotReadyError, match=r"has no schema: run `python -m app migrate`"):
            verified(unmigrated_database)

    def test_older_schema_is_refused_with_the_command_to_run(
        self, own_database: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("app.database_connections.RELEASE_REVISION", "9998")
        with pytest.raises(DatabaseNotReadyError, match=r"older than this release.*: run `python -m app migrate`"):
            verified(own_database)

    @pytest.mark.parametrize(
        "change",
        [
            "UPDATE alembic_version SET version_num = '0042'",
            "REVOKE SELECT ON alembic_version FROM change_freeze_app",  # as before revision 0011
        ],
    )
    def test_schema_before_the_first_is_refused_with_the_release_to_pass(
        self, own_database: str, sql: psycopg.Connection[Any], change: str
    ) -> None:
        sql.execute(change)
        with pytest.raises(DatabaseNotReadyError, match=r"older than release 1\.0\.0: upgrade to .* first"):
            verified(own_database)

    def test_newer_schema_is_not_ready_but_served(
        self, own_database: str, sql: psycopg.Connection[Any], acme: Tenant
    ) -> None:
        sql.execute("UPDATE alembic_version SET version_num = '9999'")
        sql.execute("COMMENT ON TABLE alembic_version IS '9998'")
        with pytest.raises(
            DatabaseNotReadyError, match=rf"newer than this release \(revision 9999, not {RELEASE_REVISION}\)"
        ):
            verified(own_database)
        assert fetched(own_database, (ORGANIZATIONS, acme.id)) == [[{"id": acme.id}]]

    @pytest.mark.parametrize("usable_from", ["0020", RELEASE_REVISION])
    def test_newer_schema_is_ready_if_it_says_that_this_release_may_use_it(
        self, own_database: str, sql: psycopg.Connection[Any], usable_from: str
    ) -> None:
        sql.execute("UPDATE alembic_version SET version_num = '9999'")
        sql.execute(f"COMMENT ON TABLE alembic_version IS '{usable_from}'")
        verified(own_database)


HOT = "SELECT 'a statement that is often used'"


class TestPreparedStatements:
    @pytest.fixture
    def engine(self, database: str) -> Iterator[Engine]:
        """An engine whose one connection has prepared a statement."""
        with engine_of(database) as engine:
            for _ in range(7):
                with engine.begin() as connection:
                    connection.execute(text(HOT))
            assert self.is_prepared(engine)
            yield engine

    @staticmethod
    def is_prepared(engine: Engine) -> bool:
        with engine.begin() as connection:
            return HOT in connection.scalars(text("SELECT statement FROM pg_prepared_statements")).all()

    def test_prepared_statement_survives_the_rollback_of_a_refusal(self, engine: Engine) -> None:
        with engine.connect() as connection:
            connection.execute(text("CREATE TEMPORARY TABLE of_a_refusal ()"))
            connection.rollback()
            assert connection.scalar(text("SELECT to_regclass('of_a_refusal')")) is None
        assert self.is_prepared(engine)

    def test_prepared_statements_are_discarded_when_one_has_failed(self, engine: Engine) -> None:
        with engine.connect() as connection, pytest.raises(sqlalchemy.exc.ProgrammingError):
            connection.execute(text("SELECT nothing"))
        assert not self.is_prepared(engine)


class TestDeadConnections:
    def test_connections_ended_by_the_server_are_replaced_before_their_use(
        self, own_database: str, sql: psycopg.Connection[Any]
    ) -> None:
        async def read() -> None:
            reads = Reads(own_database, 3)
            await asyncio.gather(*(reads.fetch("SELECT pg_sleep(0.1)") for _ in range(3)))
            sql.execute(END_OTHERS)
            for _ in range(3):
                assert await reads.fetch("SELECT 1 AS one") == [{"one": 1}]
            await reads.close()

        asyncio.run(read())
        with engine_of(own_database) as engine:
            with engine.connect(), engine.connect():
                pass
            sql.execute(END_OTHERS)
            for _ in range(2):
                with Session(engine) as session:
                    assert session.scalar(text("SELECT 1")) == 1

    def test_connection_found_dead_by_its_first_statement_is_replaced(self, own_database: str) -> None:
        with postgres_proxy(own_database) as proxy, engine_of(proxy.url) as engine:
            factory = UnitOfWorkFactory(engine, DatabaseClock(), RecordedWakeups())
            with factory.open(Caller(None, SYSTEM, "system")) as uow:
                connection = uow.session.connection().connection.driver_connection
            assert isinstance(connection, psycopg.Connection)
            connection.pgconn.finish()
            with factory.open(Caller(None, SYSTEM, "system")) as uow:
                assert uow.session.scalar(text("SELECT 1")) == 1
