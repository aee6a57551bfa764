"""Access to PostgreSQL: an engine for units of work in worker threads, and an asynchronous pool for frequent reads.

Both set the role `change_freeze_app`, to which row-level security applies, in the startup packet of a connection, and
wait at most two seconds for a free connection.
"""

import asyncio
import logging
from typing import Any, LiteralString

import orjson
import psycopg
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from sqlalchemy import Engine, NullPool, create_engine, make_url

from services.core.read_context import Parameters

logger = logging.getLogger(__name__)

ROLE = "change_freeze_app"
WORKER_ROLE = "change_freeze_worker"
IDENTITY_ROLE = "change_freeze_identity"
POOL_TIMEOUT_SECONDS = 2.0
_OPTIONS = "-c role={role} -c timezone=UTC -c statement_timeout=15000 -c idle_in_transaction_session_timeout=30000"
_CONNECT_SECONDS = 2
_BIND = "SELECT set_config('app.organization_id', %s, false)"


def make_engine(database_url: str, pool_size: int, role: str = ROLE) -> Engine:
    """Return the engine of one process.

    Jobs commit without waiting for the disk. A crash of the server can lose only their latest commits, and they repeat
    that work: a lost record looks like an expired lease, and the checks are read back.
    """
    durability = " -c synchronous_commit=off" if role == WORKER_ROLE else ""
    return create_engine(
        make_url(database_url).set(drivername="postgresql+psycopg"),
        pool_size=pool_size,
        max_overflow=0,
        hide_parameters=True,  # errors are logged, and parameters may be secrets (I10)
        pool_timeout=POOL_TIMEOUT_SECONDS,
        json_deserializer=orjson.loads,  # five times as fast for pages with hundreds of small objects
        connect_args={"options": _OPTIONS.format(role=role) + durability, "connect_timeout": _CONNECT_SECONDS},
    )


def make_lock_engine(database_url: str) -> Engine:
    """Return the engine, without a pool, of the connection whose advisory lock shows that this process is alive.

    Both sides detect within half a minute that the other host or the network is lost.
    """
    keepalives = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 25_000}
    server = "".join(f" -c tcp_{name}={value}" for name, value in keepalives.items() if name.startswith("keepalives"))
    return create_engine(
        make_url(database_url).set(drivername="postgresql+psycopg"),
        poolclass=NullPool,
        hide_parameters=True,
        connect_args={
            "options": _OPTIONS.format(role=WORKER_ROLE) + server + " -c idle_session_timeout=0",
            "connect_timeout": _CONNECT_SECONDS,
            **keepalives,
        },
    )


class _Connection(psycopg.AsyncConnection[dict[str, Any]]):
    """A connection with the organisation whose rows it may see."""

    organization_id: str | None = None


class Reads:
    """Queries on the event loop: one statement and transaction each, prepared once per connection."""

    def __init__(self, database_url: str, pool_size: int) -> None:
        url = make_url(database_url).set(drivername="postgresql")
        self._pool = AsyncConnectionPool(
            url.render_as_string(hide_password=False),
            connection_class=_Connection,
            kwargs={
                "options": _OPTIONS.format(role=ROLE),
                "autocommit": True,
                "row_factory": dict_row,
                "prepare_threshold": 0,
                "connect_timeout": _CONNECT_SECONDS,
            },
            min_size=1,
            max_size=pool_size,
            timeout=POOL_TIMEOUT_SECONDS,
            reconnect_timeout=5,
            open=False,
        )
        self._checks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Open the pool on the running loop, without waiting for the database."""
        await self._pool.open()

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    async def fetch(
        self, sql: LiteralString, parameters: Parameters = (), organization_id: str | None = None
    ) -> list[dict[str, Any]]:
        """Run one query and return its rows.

        Row-level security shows only rows of `organization_id`; None is for functions that read across organisations.
        """
        connection = await self._pool.getconn()
        try:
            if organization_id is not None and connection.organization_id != organization_id:
                connection.organization_id = None
                await connection.execute(_BIND, (organization_id,))
                connection.organization_id = organization_id
            cursor = await connection.execute(sql, parameters)
            return await cursor.fetchall()
        except psycopg.OperationalError:
            self._check_others()
            raise
        finally:
            await self._pool.putconn(connection)

    def _check_others(self) -> None:
        """After a broken connection, replace other broken ones before they are used."""
        if not self._checks:
            task = asyncio.get_running_loop().create_task(self._pool.check())
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)
