"""Database connections for streamed responses. Each download has its own, so slow readers cannot exhaust a pool.

The number of downloads is limited per process, and per organisation over all processes; above a limit the client gets
`retryAfter`. A download reads one snapshot of the database (repeatable read) and cannot write. The first rows come at
once: planner settings make PostgreSQL read an index in order instead of sorting, without parallel workers and JIT.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from inspect import isasyncgen
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row
from sqlalchemy import make_url

from app.database import ROLE
from rules.errors import ServiceError
from services.core.read_context import Parameters

MAX_DOWNLOADS = 4
"""Concurrent downloads of one process."""
MAX_DOWNLOADS_PER_ORGANIZATION = 2
"""Concurrent downloads of one organisation, over all processes."""
MAX_DURATION_SECONDS = 15 * 60
"""An older snapshot would keep vacuum from removing dead rows."""
RETRY_AFTER_SECONDS = 10
_CONNECT_TIMEOUT_SECONDS = 2
_OPTIONS = (
    f"-c role={ROLE} -c timezone=UTC -c statement_timeout={MAX_DURATION_SECONDS * 1000} "
    "-c idle_in_transaction_session_timeout=60000 -c default_transaction_isolation=repeatable\\ read "
    "-c default_transaction_read_only=on -c enable_sort=off -c jit=off -c max_parallel_workers_per_gather=0"
)
_BIND = "SELECT set_config('app.organization_id', %s, false)"
_TRY_SLOT = "SELECT pg_try_advisory_lock(hashtextextended('download ' || %s || ' of ' || %s, 0)) AS free"


class DatabaseDownload:
    """One download: a connection and its transaction."""

    def __init__(self, connection: psycopg.AsyncConnection[dict[str, Any]], downloads: "DatabaseDownloads") -> None:
        self._connection = connection
        self._downloads = downloads
        self._running: AsyncGenerator[bytes, None] | None = None

    async def fetch(self, sql: LiteralString, parameters: Parameters = ()) -> list[dict[str, Any]]:
        """Return the rows of a short query."""
        cursor = await self._connection.execute(sql, parameters)
        return await cursor.fetchall()

    def copy(self, statement: LiteralString, parameters: Parameters = ()) -> AsyncIterator[bytes]:
        """Run a `COPY … TO STDOUT` and yield its rows (each PostgreSQL message is one row)."""
        self._running = self._rows(statement, parameters)
        return self._running

    async def _rows(self, statement: LiteralString, parameters: Parameters) -> AsyncGenerator[bytes, None]:
        async with self._connection.cursor().copy(statement, parameters) as rows:
            async for row in rows:
                yield bytes(row)

    async def close(self) -> None:
        """Close the connection. A statement that still runs fails when it sends its next message."""
        self._downloads.release(self)
        await self._connection.close()
        if isasyncgen(self._running) and not self._running.ag_running:  # a reader that awaits a row gets the error
            with suppress(psycopg.Error):  # the connection is closed
                await self._running.aclose()


class DatabaseDownloads:
    """Opens the downloads of one process."""

    def __init__(self, database_url: str) -> None:
        url = make_url(database_url).set(drivername="postgresql")
        self._address = url.render_as_string(hide_password=False)
        self._opening = 0
        self._open: set[DatabaseDownload] = set()

    async def open(self, organization_id: str) -> DatabaseDownload:
        """Open a download. Raise `rate_limited` or `database_unavailable` if too many are running."""
        if self._opening + len(self._open) >= MAX_DOWNLOADS:
            message = "All download connections are in use. Try again later."
            raise ServiceError("database_unavailable", message, retry_after=RETRY_AFTER_SECONDS)
        self._opening += 1
        try:
            connection = await psycopg.AsyncConnection.connect(
                self._address,
                options=_OPTIONS,
                autocommit=True,
                connect_timeout=_CONNECT_TIMEOUT_SECONDS,
                row_factory=dict_row,
            )
            try:
                await _prepare(connection, organization_id)
            except BaseException:
                await connection.close()
                raise
            download = DatabaseDownload(connection, self)
            self._open.add(download)
        finally:
            self._opening -= 1
        return download

    def release(self, download: DatabaseDownload) -> None:
        """Free the slot of a download."""
        self._open.discard(download)

    async def close(self) -> None:
        """Close all running downloads."""
        for download in list(self._open):
            await download.close()


async def _prepare(connection: psycopg.AsyncConnection[dict[str, Any]], organization_id: str) -> None:
    """Bind the connection to the organisation, acquire one of its slots, and begin the transaction."""
    await connection.execute(_BIND, (organization_id,))
    for slot in range(MAX_DOWNLOADS_PER_ORGANIZATION):
        found = await (await connection.execute(_TRY_SLOT, (str(slot), organization_id))).fetchone()
        if found and found["free"]:
            await connection.set_autocommit(False)
            return
    message = (
        f"This organisation already has {MAX_DOWNLOADS_PER_ORGANIZATION} downloads running. Wait until one is done."
    )
    raise ServiceError("rate_limited", message, retry_after=RETRY_AFTER_SECONDS)
