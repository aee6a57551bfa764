"""Connections for long answers: each download has one of its own, so that no pool is used up by slow readers.

A process runs a few at a time, and an organisation, over all processes, fewer: whoever comes too many is told when to
come back. A download reads one state of the database (repeatable read) and cannot write. Its first rows come at once,
since rows are taken in the order of an index instead of being sorted, without parallel workers and without compiling.
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

AT_ONCE = 4
"""Downloads of one process."""
AT_ONCE_OF_ONE = 2
"""Downloads of one organisation, over all processes."""
LONGEST_SECONDS = 15 * 60
"""A state of the database that is kept for longer would keep it from being tidied."""
COME_BACK_SECONDS = 10
_CONNECT_SECONDS = 2
_OPTIONS = (
    f"-c role={ROLE} -c timezone=UTC -c statement_timeout={LONGEST_SECONDS * 1000} "
    "-c idle_in_transaction_session_timeout=60000 -c default_transaction_isolation=repeatable\\ read "
    "-c default_transaction_read_only=on -c enable_sort=off -c jit=off -c max_parallel_workers_per_gather=0"
)
_BIND = "SELECT set_config('app.organization_id', %s, false)"
_PLACE = "SELECT pg_try_advisory_lock(hashtextextended('download ' || %s || ' of ' || %s, 0)) AS free"


class DatabaseDownload:
    """One download."""

    def __init__(self, connection: psycopg.AsyncConnection[dict[str, Any]], downloads: "DatabaseDownloads") -> None:
        self._connection = connection
        self._downloads = downloads
        self._running: AsyncGenerator[bytes, None] | None = None

    async def fetch(self, sql: LiteralString, parameters: Parameters = ()) -> list[dict[str, Any]]:
        """Return the rows of a short query."""
        cursor = await self._connection.execute(sql, parameters)
        return await cursor.fetchall()

    def copy(self, statement: LiteralString, parameters: Parameters = ()) -> AsyncIterator[bytes]:
        """Run a `COPY … TO STDOUT` and return what it says, a row at a time (PostgreSQL's messages are single rows)."""
        self._running = self._rows(statement, parameters)
        return self._running

    async def _rows(self, statement: LiteralString, parameters: Parameters) -> AsyncGenerator[bytes, None]:
        async with self._connection.cursor().copy(statement, parameters) as rows:
            async for row in rows:
                yield bytes(row)

    async def close(self) -> None:
        """End the connection; a statement that still runs ends with its next word to us."""
        self._downloads.forget(self)
        await self._connection.close()
        if isasyncgen(self._running) and not self._running.ag_running:  # whoever waits for a row notices without us
            with suppress(psycopg.Error):  # it notices that its connection has gone
                await self._running.aclose()


class DatabaseDownloads:
    """Opens the downloads of one process."""

    def __init__(self, database_url: str) -> None:
        url = make_url(database_url).set(drivername="postgresql")
        self._address = url.render_as_string(hide_password=False)
        self._opening = 0
        self._open: set[DatabaseDownload] = set()

    async def open(self, organization_id: str) -> DatabaseDownload:
        """Open one; raises `rate_limited` and `database_unavailable` when there are too many."""
        if self._opening + len(self._open) >= AT_ONCE:
            message = "Every connection for downloads is busy. Try again."
            raise ServiceError("database_unavailable", message, retry_after=COME_BACK_SECONDS)
        self._opening += 1
        try:
            connection = await psycopg.AsyncConnection.connect(
                self._address,
                options=_OPTIONS,
                autocommit=True,
                connect_timeout=_CONNECT_SECONDS,
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

    def forget(self, download: DatabaseDownload) -> None:
        """Let another one take its place."""
        self._open.discard(download)

    async def close(self) -> None:
        """End whatever still runs."""
        for download in list(self._open):
            await download.close()


async def _prepare(connection: psycopg.AsyncConnection[dict[str, Any]], organization_id: str) -> None:
    """Bind it to the organisation, take one of its places, and begin the one transaction."""
    await connection.execute(_BIND, (organization_id,))
    for place in range(AT_ONCE_OF_ONE):
        found = await (await connection.execute(_PLACE, (str(place), organization_id))).fetchone()
        if found and found["free"]:
            await connection.set_autocommit(False)
            return
    message = f"{AT_ONCE_OF_ONE} downloads of this organisation are running. Start another one when one is done."
    raise ServiceError("rate_limited", message, retry_after=COME_BACK_SECONDS)
