"""Looking whether the code host is there, for `/readyz`: seldom, and never twice at once."""

import asyncio
import time
from collections.abc import Callable

_ASK_EVERY_SECONDS = 30.0


class CachedHealthCheck:
    """Asks a blocking question in a thread, and remembers the answer for half a minute."""

    def __init__(self, ask: Callable[[], object]) -> None:
        self._ask = ask
        self._asked_at = 0.0
        self._answer: asyncio.Task[object] | None = None

    async def __call__(self) -> object:
        """Return the answer, or raise what the question raised; a waiter that gives up does not end the question."""
        now = time.monotonic()
        stale = self._answer is None or (self._answer.done() and now - self._asked_at >= _ASK_EVERY_SECONDS)
        if self._answer is None or stale:
            self._asked_at = now
            self._answer = asyncio.create_task(asyncio.to_thread(self._ask))
        return await asyncio.shield(self._answer)
