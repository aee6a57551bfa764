"""Access to PostgreSQL: an engine for units of work in worker threads, and a pool for frequent reads on the event loop.

Both act as a role to which row-level security applies, wait for a free connection for some seconds only, and find dead
connections before they use them.
"""

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Any, LiteralString

import orjson
import psycopg
import sqlalchemy.exc
from psycopg import AsyncClientCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row
from sqlalchemy import Engine, NullPool, PoolProxiedConnection, QueuePool, create_engine, event, make_url

from app.database_connections import (
    ANSWER_TIMEOUT_SECONDS,
    STATEMENT_TIMEOUT_SECONDS,
    AsyncConnection,
    Connection,
    has_died,
    libpq_address,
    open_async_connection,
    open_connection,
    verify,
)
from app.database_outages import DatabaseOutageError
from app.database_spans import statement_span
from app.metrics import families
from app.slots import MAX_WAIT_SECONDS, Slots
from services.core.read_context import Parameters
from services.core.transactions import set_in_every_transaction

APP_ROLE = "change_freeze_app"
WORKER_ROLE = "change_freeze_worker"
IDENTITY_ROLE = "change_freeze_identity"
ROLES = (APP_ROLE, WORKER_ROLE, IDENTITY_ROLE)
POOLS = {APP_ROLE: "requests", WORKER_ROLE: "jobs", IDENTITY_ROLE: "identity"}
"""The names of the pools of connections, by role."""
READS_POOL = "reads"
READINESS_TIMEOUT_SECONDS = 1.5
MAX_CONNECTION_AGE_SECONDS = 3600.0
"""Of a connection for reads: the server process behind it grows with what it has cached."""
_SETTINGS = {
    "timezone": "UTC",
    "statement_timeout": f"{STATEMENT_TIMEOUT_SECONDS}s",
    "idle_in_transaction_session_timeout": "30s",
}
_JOB_SETTINGS = {
    "synchronous_commit": "off",
    "idle_in_transaction_session_timeout": "4s",
    "lock_timeout": "5s",
}
_WAITS = families.POOL_WAITS.counter()
_TIMEOUTS = families.POOL_TIMEOUTS.counter()
# A literal, as psycopg requires: the values are those of `_SETTINGS`.
_BIND: LiteralString = (
    "SELECT set_config('app.organization_id', %(organization_id)s, %(local)s), "
    "set_config('role', %(role)s, %(local)s), "
    "set_config('timezone', 'UTC', %(local)s), set_config('statement_timeout', '15s', %(local)s), "
    "set_config('idle_in_transaction_session_timeout', '30s', %(local)s)"
)


class MeasuredPool(QueuePool):
    """A pool that counts, under its name, who has to wait for a connection."""

    def connect(self) -> PoolProxiedConnection:
        """Return a connection, as soon as one is free."""
        if self.checkedout() >= self.size():
            _WAITS.labels(self.logging_name).inc()
        try:
            return super().connect()
        except sqlalchemy.exc.TimeoutError:
            _TIMEOUTS.labels(self.logging_name).inc()
            raise


def make_engine(
    database_url: str,
    pool_size: int,
    role: str = APP_ROLE,
    *,
    answer_timeout: float | None = ANSWER_TIMEOUT_SECONDS,
    statement_timeout: int = STATEMENT_TIMEOUT_SECONDS,
) -> Engine:
    """Return the engine of one process, whose transactions take the role.

    Jobs commit without waiting for the disk. A crash of the server can lose only their latest commits, and they repeat
    that work: a lost record looks like an expired lease, and the checks are read back. A job that is stopped within a
    transaction loses it after four seconds, and the locks that requests wait for.

    An operation fails after `answer_timeout` seconds without an answer; None is for statements without a timeout.
    """
    pool_name = POOLS.get(role, role)
    for counter in (_WAITS, _TIMEOUTS):
        counter.labels(pool_name)  # begins at 0, and not when the first request has waited
    engine = create_engine(
        make_url(database_url).set(drivername="postgresql+psycopg"),
        poolclass=MeasuredPool,
        pool_logging_name=pool_name,
        pool_size=pool_size,
        max_overflow=0,
        pool_use_lifo=True,  # the connection used last has prepared most
        hide_parameters=True,  # errors are logged, and parameters may be secrets (I10)
        pool_timeout=MAX_WAIT_SECONDS,
        json_deserializer=orjson.loads,  # five times as fast for pages with hundreds of small objects
    )
    of_jobs = _JOB_SETTINGS if role == WORKER_ROLE else {}
    settings = {**_SETTINGS, **of_jobs, "statement_timeout": f"{statement_timeout}s"}
    _configure(engine, database_url, role, settings, answer_timeout)
    return engine


def make_lock_engine(database_url: str) -> Engine:
    """Return the engine, without a pool, of the connection whose advisory lock shows that this process is alive.

    Both sides detect within half a minute that the other host or the network is lost.
    """
    keepalives = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
    engine = create_engine(
        make_url(database_url).set(drivername="postgresql+psycopg"),
        poolclass=NullPool,
        hide_parameters=True,
        connect_args={**keepalives, "tcp_user_timeout": 25_000},
    )
    _configure(engine, database_url, WORKER_ROLE, _SETTINGS, ANSWER_TIMEOUT_SECONDS)
    of_session = {"idle_session_timeout": "0", **{f"tcp_{name}": str(value) for name, value in keepalives.items()}}

    def set_up(connection: Connection, _: Any) -> None:
        for name, value in of_session.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        connection.commit()

    event.listen(engine, "connect", set_up)
    return engine


def _configure(
    engine: Engine, database_url: str, role: str, settings: dict[str, str], answer_timeout: float | None
) -> None:
    """Open and verify the engine's connections as all others, replace dead ones, and set up its transactions."""
    address = libpq_address(database_url)

    def connect(_dialect: Any, _record: Any, _arguments: Sequence[Any], parameters: dict[str, Any]) -> Connection:
        return open_connection(address, role, answer_timeout, **parameters)

    def replace_dead(connection: Connection, _record: Any, _proxy: Any) -> None:
        if has_died(connection.pgconn):
            raise sqlalchemy.exc.DisconnectionError

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "checkout", replace_dead)
    set_in_every_transaction(engine, {"role": role, **settings})


def verify_database(database_url: str, role: str) -> None:
    """Raise OperationalError unless a process that starts now can use the database as this role.

    DatabaseNotReadyError says in one line what is wrong with the role or the schema.
    """
    address = libpq_address(database_url)
    open_connection(address, role, ANSWER_TIMEOUT_SECONDS, accept_newer=False, conninfo=address).close()


class _Connection(AsyncConnection):
    """A connection with the organisation whose rows it may see."""

    organization_id: str | None = None
    """Empty for none; None before the session has its settings."""
    opened_at = 0.0
    """By the monotonic clock."""


class Reads:
    """Queries on the event loop: one statement and transaction each, prepared once per connection.

    Where only we use the session, role, timeouts and organisation are set in it, and again for another organisation.
    Otherwise they are set in the transaction of each query, by the same message to the server.
    """

    def __init__(self, database_url: str, pool_size: int) -> None:
        self._address = libpq_address(database_url)
        self.slots = Slots(pool_size, _WAITS.labels(READS_POOL), _TIMEOUTS.labels(READS_POOL))
        self._idle: list[_Connection] = []
        self._closed = False

    async def close(self) -> None:
        """Close idle connections now, and the others when they are given back."""
        self._closed = True
        while self._idle:
            await self._idle.pop().close()

    async def fetch(
        self, sql: LiteralString, parameters: Parameters = (), organization_id: str | None = None
    ) -> list[dict[str, Any]]:
        """Run one query and return its rows. Raise `busy` if all connections stay in use.

        Row-level security shows only rows of `organization_id`; None is for functions that read across organisations.
        A query on an idle connection that turns out to be dead runs again on a new one.
        """
        await self.slots.acquire()
        try:
            connection = self._take_idle()
            if connection is not None:
                try:
                    return await self._fetch(connection, sql, parameters, organization_id)
                except psycopg.OperationalError as error:
                    if not connection.closed or isinstance(error, DatabaseOutageError):
                        raise
            return await self._fetch(await self._open(), sql, parameters, organization_id)
        finally:
            self.slots.release()

    async def verify(self) -> None:
        """Raise DatabaseNotReadyError, or another OperationalError, unless requests can be served now."""
        try:
            async with asyncio.timeout(READINESS_TIMEOUT_SECONDS):
                await self.slots.acquire()
                try:
                    connection = self._take_idle() or await self._open()
                    try:
                        await verify(connection, APP_ROLE, accept_newer=False)
                    finally:
                        self._give_back(connection)
                finally:
                    self.slots.release()
        except TimeoutError:
            raise DatabaseOutageError("PostgreSQL does not answer in time") from None

    def _take_idle(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not has_died(connection.pgconn):
                return connection
            connection.pgconn.finish()
        return None

    async def _open(self) -> _Connection:
        connection = await open_async_connection(
            _Connection, self._address, APP_ROLE, ANSWER_TIMEOUT_SECONDS, row_factory=dict_row, prepare_threshold=0
        )
        connection.opened_at = monotonic()
        return connection

    def _give_back(self, connection: _Connection) -> None:
        is_idle = not connection.closed and connection.pgconn.transaction_status == TransactionStatus.IDLE
        if is_idle and not self._closed and monotonic() - connection.opened_at < MAX_CONNECTION_AGE_SECONDS:
            self._idle.append(connection)
        else:
            connection.pgconn.finish()

    async def _fetch(
        self, connection: _Connection, sql: LiteralString, parameters: Parameters, organization_id: str | None
    ) -> list[dict[str, Any]]:
        try:
            organization = organization_id or ""
            settings = {"organization_id": organization, "role": APP_ROLE, "local": not connection.is_direct}
            if not connection.is_direct:  # one message is one transaction
                cursor = AsyncClientCursor(connection)
                both = f"{cursor.mogrify(_BIND, settings)}; {cursor.mogrify(sql, parameters)}"
                with statement_span(sql):
                    await cursor.execute(both.encode())
                cursor.nextset()
                return await cursor.fetchall()
            bound = connection.organization_id
            if bound is None or organization_id not in {None, bound}:
                connection.organization_id = None
                await connection.execute(_BIND, settings)
                connection.organization_id = organization
            return await (await connection.execute(sql, parameters)).fetchall()
        finally:
            self._give_back(connection)
