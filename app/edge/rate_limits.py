"""Rate limits: requests per organisation, and writes per credential, in fixed windows of one minute.

Without a credential, requests are counted per value of a path parameter (`x-rate-limit`), such as the secret of a feed.

One call of a script counts a request in Redis, for all its limits. While Redis is down or slow, each process counts for
itself: clients still get the headers, and no request fails because of Redis. A limit is then as many times higher as
there are processes. After an error Redis is not called for a few seconds.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from redis.exceptions import NoScriptError, RedisError

from app.edge.request_context import Budget
from rules.access.permissions import Principal
from rules.errors import ServiceError

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

WINDOW_SECONDS = 60
_REDIS_TIMEOUT_SECONDS = 0.1
_REDIS_PAUSE_SECONDS = 3.0
_MAX_LOCAL_WINDOWS = 50_000

_SCRIPT = """
local result = {}
for i, key in ipairs(KEYS) do
    local count = redis.call('INCR', key)
    local left = count == 1 and -1 or redis.call('PTTL', key)
    if left < 0 then
        redis.call('PEXPIRE', key, ARGV[1])
        left = tonumber(ARGV[1])
    end
    result[2 * i - 1] = count
    result[2 * i] = left
end
return result
"""


class RateLimits:
    """Counts requests in Redis, or in this process while Redis is unavailable."""

    def __init__(self, redis: "Redis | None", *, organization: int, writes: int) -> None:
        self._redis = redis
        self._organization = organization
        self._writes = writes
        self._sha: str | None = None
        self._paused_until = 0.0
        self._local: dict[str, tuple[float, int]] = {}

    async def count(self, principal: Principal, *, write: bool) -> Budget:
        """Count one request and return the lowest remaining budget; below zero the request must be rejected.

        A person who acts in no organisation is counted by themselves.
        """
        keys = [f"rate:{principal.organization_id or principal.id}"]
        if write:
            keys.append(f"rate:{principal.id}:w")
        budgets = await self._count(keys, (self._organization, self._writes))
        return min(budgets, key=lambda budget: budget.remaining)

    async def count_value(self, operation: str, value: str, limit: int) -> Budget:
        """Count one request for a value, such as the secret in an address, of which only a hash is kept."""
        keys = [f"rate:{operation}:{hashlib.blake2b(value.encode(), digest_size=16).hexdigest()}"]
        [budget] = await self._count(keys, (limit,))
        return budget

    async def _count(self, keys: list[str], limits: Sequence[int]) -> list[Budget]:
        """Count one request for each key and return what is left of their limits, in the same order."""
        counts = await self._in_redis(keys)
        if counts is None:
            counts = self._in_process(keys)
        windows = zip(limits, counts[::2], counts[1::2], strict=False)
        return [Budget(limit - count, -(-milliseconds // 1000)) for limit, count, milliseconds in windows]

    async def _in_redis(self, keys: list[str]) -> list[int] | None:
        if self._redis is None or time.monotonic() < self._paused_until:
            return None
        try:
            async with asyncio.timeout(_REDIS_TIMEOUT_SECONDS):
                return await self._evaluate(self._redis, keys)
        except (RedisError, OSError, TimeoutError) as error:
            logger.warning("Redis unavailable, counting rate limits in process: %s", type(error).__name__)
            self._paused_until = time.monotonic() + _REDIS_PAUSE_SECONDS
            return None

    async def _evaluate(self, redis: "Redis", keys: list[str]) -> list[int]:
        arguments = (len(keys), *keys, WINDOW_SECONDS * 1000)
        if self._sha is None:
            self._sha = await redis.script_load(_SCRIPT)
        try:
            return await redis.execute_command("EVALSHA", self._sha, *arguments)  # type: ignore[no-any-return, no-untyped-call]
        except NoScriptError:
            return await redis.execute_command("EVAL", _SCRIPT, *arguments)  # type: ignore[no-any-return, no-untyped-call]

    def _in_process(self, keys: list[str]) -> list[int]:
        now = time.monotonic()
        if len(self._local) > _MAX_LOCAL_WINDOWS:
            self._local = {key: window for key, window in self._local.items() if window[0] > now}
        counts = []
        for key in keys:
            ends_at, count = self._local.get(key, (0.0, 0))
            if ends_at <= now:
                ends_at, count = now + WINDOW_SECONDS, 0
            self._local[key] = (ends_at, count + 1)
            counts += [count + 1, int((ends_at - now) * 1000)]
        return counts


def raise_if_exceeded(budget: Budget) -> None:
    """Raise `rate_limited` if the budget is exceeded."""
    if budget.remaining < 0:
        raise ServiceError(
            "rate_limited", f"Too many requests. Try again in {budget.reset} seconds.", retry_after=max(1, budget.reset)
        )
