"""Rate limits: a ceiling per organisation and a budget of writes per credential, in windows of one minute.

One script call per request counts both in Redis. While Redis is away or slow, each process counts for itself, so
that clients still get headers and no request ever fails because of Redis (a limit is then up to as many times
higher as there are processes). After a failure Redis is left alone for a few seconds.
"""

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from redis.exceptions import NoScriptError, RedisError

from app.edge.exchange import Budget
from rules.access.permissions import Principal
from rules.errors import ServiceError

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

WINDOW_SECONDS = 60
_REDIS_WAIT_SECONDS = 0.1
_REST_SECONDS = 3.0
_MOST_LOCAL_WINDOWS = 50_000

_SCRIPT = """
local answer = {}
for i, key in ipairs(KEYS) do
    local count = redis.call('INCR', key)
    local left = count == 1 and -1 or redis.call('PTTL', key)
    if left < 0 then
        redis.call('PEXPIRE', key, ARGV[1])
        left = tonumber(ARGV[1])
    end
    answer[2 * i - 1] = count
    answer[2 * i] = left
end
return answer
"""


class RateLimits:
    """Counts requests and says what is left. Without Redis it counts in this process."""

    def __init__(self, redis: "Redis | None", *, organization: int, writes: int) -> None:
        self._redis = redis
        self._organization = organization
        self._writes = writes
        self._sha: str | None = None
        self._rest_until = 0.0
        self._local: dict[str, tuple[float, int]] = {}

    async def count(self, principal: Principal, *, write: bool) -> Budget:
        """Count one request and return the tightest of its budgets; one below zero is to be refused."""
        keys = [f"rate:{principal.organization_id or principal.id}"]
        if write:
            keys.append(f"rate:{principal.id}:w")
        counts = await self._in_redis(keys) if self._redis is not None else None
        if counts is None:
            counts = self._here(keys)
        tightest = Budget(self._organization - counts[0], -(-counts[1] // 1000))
        if write:
            writes = Budget(self._writes - counts[2], -(-counts[3] // 1000))
            if writes.remaining < tightest.remaining:
                tightest = writes
        return tightest

    async def _in_redis(self, keys: list[str]) -> list[int] | None:
        if self._redis is None or time.monotonic() < self._rest_until:
            return None
        try:
            async with asyncio.timeout(_REDIS_WAIT_SECONDS):
                return await self._evaluate(self._redis, keys)
        except (RedisError, OSError, TimeoutError) as error:
            logger.warning("rate limits are counted locally: %s", type(error).__name__)
            self._rest_until = time.monotonic() + _REST_SECONDS
            return None

    async def _evaluate(self, redis: "Redis", keys: list[str]) -> list[int]:
        arguments = (len(keys), *keys, WINDOW_SECONDS * 1000)
        if self._sha is None:
            self._sha = await redis.script_load(_SCRIPT)
        try:
            return await redis.execute_command("EVALSHA", self._sha, *arguments)  # type: ignore[no-any-return, no-untyped-call]
        except NoScriptError:
            return await redis.execute_command("EVAL", _SCRIPT, *arguments)  # type: ignore[no-any-return, no-untyped-call]

    def _here(self, keys: list[str]) -> list[int]:
        now = time.monotonic()
        if len(self._local) > _MOST_LOCAL_WINDOWS:
            self._local = {key: window for key, window in self._local.items() if window[0] > now}
        answer = []
        for key in keys:
            ends_at, count = self._local.get(key, (0.0, 0))
            if ends_at <= now:
                ends_at, count = now + WINDOW_SECONDS, 0
            self._local[key] = (ends_at, count + 1)
            answer += [count + 1, int((ends_at - now) * 1000)]
        return answer


def refuse_when_spent(budget: Budget) -> None:
    """Raise `rate_limited` when the request was one too many."""
    if budget.remaining < 0:
        raise ServiceError(
            "rate_limited", f"Too many requests; try again in {budget.reset} s.", retry_after=max(1, budget.reset)
        )
