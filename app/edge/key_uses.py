"""`lastUsedAt` of API keys, written in batches and without delaying requests.

Each process records a key at most once per minute, so `lastUsedAt` may lag by a minute and a second. A failed write is
dropped and made up by the next use of the key: it never fails a request.
"""

import asyncio
import logging
from contextlib import suppress
from datetime import datetime, timedelta

import psycopg

from rules.errors import ServiceError
from services.core.read_context import Reader

logger = logging.getLogger(__name__)

RECORD_INTERVAL = timedelta(minutes=1)
BATCH_SECONDS = 1.0
"""How long uses are collected before they are written together."""
_WRITE = "SELECT note_key_uses(%s::text[], %s::timestamptz[])"
_MAX_CACHED = 10_000


class KeyUses:
    """The uses of API keys in this process."""

    def __init__(self, database: Reader, batch_seconds: float = BATCH_SECONDS) -> None:
        self._database = database
        self._batch_seconds = batch_seconds
        self._recorded: dict[str, datetime] = {}
        self._pending: dict[str, datetime] = {}
        self._writer: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    def record(self, key_id: str, now: datetime) -> None:
        """Record that a key was used; call it on the event loop."""
        recorded_at = self._recorded.get(key_id)
        if recorded_at is not None and now - recorded_at < RECORD_INTERVAL:
            return
        if len(self._recorded) >= _MAX_CACHED:
            self._recorded.clear()
        self._recorded[key_id] = self._pending[key_id] = now
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_soon())

    async def close(self) -> None:
        """Write the pending uses at once, before the process ends."""
        self._ending.set()
        if self._writer is not None:
            await self._writer

    async def _write_soon(self) -> None:
        try:
            while self._pending:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ending.wait(), self._batch_seconds)
                await self._write()
        finally:
            self._writer = None

    async def _write(self) -> None:
        uses, self._pending = self._pending, {}
        try:
            await self._database.fetch(_WRITE, (list(uses), list(uses.values())))
        except (psycopg.Error, ServiceError) as error:
            logger.warning("last use of %d API keys not written: %s", len(uses), type(error).__name__)
            for key_id in uses:
                self._recorded.pop(key_id, None)
