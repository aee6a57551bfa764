"""Slots: a limited number of simultaneous uses, such as of connections; requests wait for one in turn, not for long."""

import asyncio

from prometheus_client import Counter

from rules.errors import ServiceError

MAX_WAIT_SECONDS = 10.0
"""Longer than a burst of freezes of one organisation takes, which lock the same branches one after the other."""
RETRY_AFTER_SECONDS = 1


class Slots:
    """The slots of one event loop; `waits` counts requests that wait, `refusals` those that give up."""

    def __init__(self, size: int, waits: Counter, refusals: Counter) -> None:
        self.size = size
        self.in_use = 0
        self._free = asyncio.Semaphore(size)
        self._waits, self._refusals = waits, refusals

    async def acquire(self) -> None:
        """Acquire a slot. Raise `busy` if all stay in use."""
        if self._free.locked():
            await self._wait()
        else:
            await self._free.acquire()
        self.in_use += 1

    def release(self) -> None:
        """Release a slot."""
        self.in_use -= 1
        self._free.release()

    async def _wait(self) -> None:
        self._waits.inc()
        try:
            async with asyncio.timeout(MAX_WAIT_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            self._refusals.inc()
            message = "The service is busy with other requests. Nothing was changed; try again."
            raise ServiceError("busy", message, retry_after=RETRY_AFTER_SECONDS) from None
