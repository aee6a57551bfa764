"""When API keys were last used: noted without keeping a request waiting, and written for many keys at once.

Each process notes a key once a minute at most, so `lastUsedAt` may lag by a minute and a second. What cannot be written
is forgotten, and noted again by the key's next use: nobody is refused for the sake of it.
"""

import asyncio
import logging
from contextlib import suppress
from datetime import datetime, timedelta

import psycopg

from services.core.read_context import Reader

logger = logging.getLogger(__name__)

NOTED_AGAIN = timedelta(minutes=1)
GATHERED_SECONDS = 1.0
"""How long the uses of several keys are gathered before they are written together."""
_WRITE = "SELECT note_key_uses(%s::text[], %s::timestamptz[])"
_MOST_REMEMBERED = 10_000


class KeyUses:
    """The uses that this process has seen."""

    def __init__(self, database: Reader, gathered: float = GATHERED_SECONDS) -> None:
        self._database = database
        self._gathered = gathered
        self._noted: dict[str, datetime] = {}
        self._waiting: dict[str, datetime] = {}
        self._writer: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    def note(self, key_id: str, now: datetime) -> None:
        """Note on the event loop that a key was used."""
        noted = self._noted.get(key_id)
        if noted is not None and now - noted < NOTED_AGAIN:
            return
        if len(self._noted) >= _MOST_REMEMBERED:
            self._noted.clear()
        self._noted[key_id] = self._waiting[key_id] = now
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_soon())

    async def close(self) -> None:
        """Write at once what still waits; the process ends."""
        self._ending.set()
        if self._writer is not None:
            await self._writer

    async def _write_soon(self) -> None:
        try:
            while self._waiting:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ending.wait(), self._gathered)
                await self._write()
        finally:
            self._writer = None

    async def _write(self) -> None:
        uses, self._waiting = self._waiting, {}
        try:
            await self._database.fetch(_WRITE, (list(uses), list(uses.values())))
        except psycopg.Error as error:
            logger.warning("the last use of %d keys was not written: %s", len(uses), type(error).__name__)
            for key_id in uses:
                self._noted.pop(key_id, None)
