"""Worker threads for handlers that use the database, by realm: as many as there are connections, so none waits for one.

What concerns people has more threads than connections, for while a password is hashed a thread holds none.

A request that finds no free thread within two seconds is told to come back, instead of queueing without end.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from app.database import POOL_WAIT_SECONDS
from rules.errors import ServiceError

T = TypeVar("T")


class Workers:
    """Runs functions in threads of their own."""

    def __init__(self, threads: int, name: str = "handler") -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._free = asyncio.Semaphore(threads)

    async def run(self, function: Callable[[], T]) -> T:
        """Return the function's result; raises `database_unavailable` when every thread stays busy."""
        if self._free.locked():
            await self._wait()
        else:
            await self._free.acquire()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, function)
        finally:
            self._free.release()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(POOL_WAIT_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            message = "Every database connection is busy. Try again."
            raise ServiceError("database_unavailable", message, retry_after=1) from None

    def close(self) -> None:
        """Wait for what runs, and end the threads."""
        self._executor.shutdown()
