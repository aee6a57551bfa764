"""A cached health check of a remote service, for `/readyz`."""

import asyncio
import time
from collections.abc import Callable

_CHECK_INTERVAL_SECONDS = 30.0


class CachedHealthCheck:
    """Runs a blocking check in a thread and caches its result for half a minute; checks never overlap."""

    def __init__(self, check: Callable[[], object]) -> None:
        self._check = check
        self._checked_at = 0.0
        self._result: asyncio.Task[object] | None = None

    async def __call__(self) -> object:
        """Return the result, or raise what the check raised. Cancelling one waiter does not cancel the check."""
        now = time.monotonic()
        stale = self._result is None or (self._result.done() and now - self._checked_at >= _CHECK_INTERVAL_SECONDS)
        if self._result is None or stale:
            self._checked_at = now
            self._result = asyncio.create_task(asyncio.to_thread(self._check))
        return await asyncio.shield(self._result)
