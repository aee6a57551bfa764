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
from psycopg import IsolationLevel
from psycopg.rows import dict_row

from app.database import APP_ROLE
from app.database_connections import AsyncConnection, libpq_address, open_async_connection
from rules.errors import ServiceError
from services.core.read_context import Parameters

MAX_DOWNLOADS = 4
"""Concurrent downloads of one process."""
MAX_DOWNLOADS_PER_ORGANIZATION = 2
"""Concurrent downloads of one organisation, over all processes."""
MAX_DURATION_SECONDS = 15 * 60
"""An older snapshot would keep vacuum from removing dead rows."""
RETRY_AFTER_SECONDS = 10
_SET_UP: LiteralString = (
    "SELECT set_config('app.organization_id', %(organization_id)s, true), set_config('role', %(role)s, true), "
    "set_config('timezone', 'UTC', true), set_config('statement_timeout', %(timeout)s, true), "
    "set_config('idle_in_transaction_session_timeout', '60s', true), set_config('enable_sort', 'off', true), "
    "set_config('jit', 'off', true), set_config('max_parallel_workers_per_gather', '0', true)"
)
_TRY_SLOT = "SELECT pg_try_advisory_xact_lock(hashtextextended('download ' || %s || ' of ' || %s, 0)) AS free"


class DatabaseDownload:
    """One download: a connection and its transaction."""

    def __init__(self, connection: AsyncConnection, downloads: "DatabaseDownloads") -> None:
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
        await self._connection.rollback()  # the organisation's slot is free before the reader has everything

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
        self._address = libpq_address(database_url)
        self._opening = 0
        self._open: set[DatabaseDownload] = set()

    async def open(self, organization_id: str) -> DatabaseDownload:
        """Open a download. Raise `rate_limited` or `busy` if too many are running."""
        if self._opening + len(self._open) >= MAX_DOWNLOADS:
            message = "All download connections are in use. Try again later."
            raise ServiceError("busy", message, retry_after=RETRY_AFTER_SECONDS)
        self._opening += 1
        try:
            connection = await open_async_connection(
                AsyncConnection, self._address, APP_ROLE, MAX_DURATION_SECONDS, row_factory=dict_row
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


async def _prepare(connection: AsyncConnection, organization_id: str) -> None:
    """Begin the transaction for the organisation, and acquire one of its slots until the end of the transaction."""
    await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
    await connection.set_read_only(True)
    await connection.set_autocommit(False)
    settings = {"organization_id": organization_id, "role": APP_ROLE, "timeout": f"{MAX_DURATION_SECONDS}s"}
    await connection.execute(_SET_UP, settings)
    for slot in range(MAX_DOWNLOADS_PER_ORGANIZATION):
        found = await (await connection.execute(_TRY_SLOT, (str(slot), organization_id))).fetchone()
        if found and found["free"]:
            return
    message = (
        f"This organisation already has {MAX_DOWNLOADS_PER_ORGANIZATION} downloads running. Wait until one is done."
    )
    raise ServiceError("rate_limited", message, retry_after=RETRY_AFTER_SECONDS)
