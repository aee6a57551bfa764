"""Worker threads for handlers that use the database, one pool per database role.

The pool of `organization` has as many threads as there are database connections, so no thread waits for a connection.
The pool of `identity` has more threads than connections, because a thread that hashes a password holds none. A request
that gets no thread within two seconds is rejected with `database_unavailable` instead of queueing without limit.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from app.database import POOL_TIMEOUT_SECONDS
from rules.errors import ServiceError

T = TypeVar("T")


class Workers:
    """A thread pool that rejects work after a short wait."""

    def __init__(self, threads: int, name: str = "handler") -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._free = asyncio.Semaphore(threads)

    async def run(self, function: Callable[[], T]) -> T:
        """Return the function's result. Raise `database_unavailable` if all threads stay busy."""
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
            async with asyncio.timeout(POOL_TIMEOUT_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            message = "All database connections are in use. Try again."
            raise ServiceError("database_unavailable", message, retry_after=1) from None

    def close(self) -> None:
        """Wait for running functions and end the threads."""
        self._executor.shutdown()
