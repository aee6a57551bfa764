"""Worker threads for handlers that use the database, one pool per database role.

The pool of `organization` has as many threads as there are database connections, so no thread waits for a connection.
The pool of `identity` has more threads than connections, because a thread that hashes a password holds none. A request
that gets no thread within `MAX_WAIT_SECONDS` is rejected with `busy` instead of queueing without limit.
"""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from app.metrics import families
from app.slots import Slots

T = TypeVar("T")

_WAITS = families.REQUEST_THREAD_WAITS.counter()
_REFUSALS = families.REQUEST_THREAD_REFUSALS.counter()


class Workers:
    """A thread pool that rejects work after a short wait."""

    def __init__(self, threads: int, name: str = "handler") -> None:
        self.name = name
        self.slots = Slots(threads, _WAITS.labels(name), _REFUSALS.labels(name))
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, function: Callable[[], T]) -> T:
        """Return the function's result. Raise `busy` if all threads stay in use."""
        await self.slots.acquire()
        try:
            run = contextvars.copy_context().run
            return await asyncio.get_running_loop().run_in_executor(self._executor, run, function)
        finally:
            self.slots.release()

    def close(self) -> None:
        """Wait for running functions and end the threads."""
        self._executor.shutdown()
