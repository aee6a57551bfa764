"""Wake-ups through RQ: a job's name, and for the logs the trace that sends it; at most one waiting for each name.

A wake-up asks a worker to run a job. It is deduplicated only against one that has not started: a job removes the mark
first of all. It is never needed for correctness, so a Redis that is down, hung or full costs at most a fraction of a
second; one that hangs is then not called for a while, or a job that sends many wake-ups would be slowed down.
"""

import logging
from time import monotonic

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import Queue
from rq.serializers import JSONSerializer

from integrations.traces import job_metadata

logger = logging.getLogger(__name__)

QUEUE = "wakeups"
FIRST = ("stops", "reconcile")
"""The jobs that a freeze waits for, in their order, are sent before others; the first of them does not wait in line."""
SOCKET_TIMEOUT = 0.3
"""Seconds that a request may lose to a Redis that does not answer."""
PAUSE_SECONDS = 3.0
"""Seconds without wake-ups after Redis did not answer; the sweep finds the work meanwhile."""
MARK_SECONDS = 5
"""For how long a wake-up that no job has removed prevents another one."""
REACHABLE_SECONDS = 60
"""Lifetime of the key that the sweep writes only to see whether Redis accepts writes."""
MAX_UNTAKEN_SECONDS = 10.0
"""Seconds that a wake-up may stay at the head of the queue before the sweep runs the jobs itself."""
JOB_SECONDS = 120
"""RQ ends a job after so long; ours give up their turn sooner, by their time slices."""


def connect(url: str, *, timeout: float = SOCKET_TIMEOUT) -> redis.Redis:
    """Return a pooled client that gives up after `timeout` seconds, and does not try again."""
    return redis.Redis.from_url(
        url, socket_timeout=timeout, socket_connect_timeout=timeout, retry=Retry(NoBackoff(), 0)
    )


def _place(name: str) -> tuple[int, str]:
    return (FIRST.index(name) if name in FIRST else len(FIRST), name)


class RedisWakeups:
    """Sends wake-ups to the workers."""

    def __init__(self, url: str) -> None:
        self._redis = connect(url)
        self._queue = Queue(QUEUE, connection=self._redis, serializer=JSONSerializer)
        self._paused_until = 0.0

    def send(self, names: set[str]) -> None:
        """Wake the named jobs; a failure is logged, never raised."""
        if monotonic() < self._paused_until:
            return
        for name in sorted(names, key=_place):
            try:
                if self._redis.set(mark_key(name), b"1", nx=True, ex=MARK_SECONDS):
                    self._queue.enqueue(
                        "jobs.registry.run",
                        name,
                        meta=job_metadata(),
                        job_timeout=JOB_SECONDS,
                        at_front=name == FIRST[0],
                        result_ttl=0,
                        failure_ttl=60,
                    )
            except redis.RedisError as error:
                logger.warning("wake-up of %s was not sent, the sweep will find the work: %s", name, error)
                self._pause_after(error)
                return

    def started(self, name: str) -> None:
        """Record that the named job has started: from now on another wake-up of it is queued."""
        if monotonic() < self._paused_until:
            return  # the mark is gone by itself within seconds
        try:
            self._redis.delete(mark_key(name))
        except redis.RedisError as error:
            self._pause_after(error)

    def _pause_after(self, error: redis.RedisError) -> None:
        if isinstance(error, redis.TimeoutError):
            self._paused_until = monotonic() + PAUSE_SECONDS


class WakeupWatch:
    """Watches whether workers take the wake-ups that they are sent.

    A Redis that is full answers, and accepts nothing. Where no worker runs, the same wake-up stays at the head of the
    queue; that time is measured only by the clock of this process.
    """

    def __init__(self, url: str, max_untaken_seconds: float = MAX_UNTAKEN_SECONDS) -> None:
        self._redis = connect(url)
        self._queue_key = Queue(QUEUE, connection=self._redis, serializer=JSONSerializer).key
        self._max_untaken_seconds = max_untaken_seconds
        self._next: bytes | str | None = None
        self._since = 0.0

    def workers_available(self) -> bool:
        """True if Redis accepts a wake-up, and the one at the head of the queue has not waited for too long."""
        try:
            self._redis.set("sweep:reachable", b"1", ex=REACHABLE_SECONDS)
            waiting = self._redis.lindex(self._queue_key, 0)
        except redis.RedisError:
            return False
        if waiting != self._next:
            self._next, self._since = waiting, monotonic()
        return waiting is None or monotonic() - self._since <= self._max_untaken_seconds

    def count_waiting(self) -> int:
        """Return how many wake-ups no worker has taken. Raise RedisError if Redis is not available."""
        return self._redis.llen(self._queue_key)


def mark_key(name: str) -> str:
    """Return the Redis key that says that a wake-up of this name is waiting."""
    return f"wakeup:{name}"
