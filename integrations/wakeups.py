"""Wake-ups through RQ: a job's name and nothing else, at most one waiting for each name.

A wake-up is deduplicated only against one that has not begun: the mark is taken away by the job's first line. It is
never needed for correctness, so a Redis that is away, hung or full costs at most a fraction of a second; one that
hangs is then left alone for a while, or a job that sends many would come to a crawl.
"""

import logging
from time import monotonic

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import Queue
from rq.serializers import JSONSerializer

logger = logging.getLogger(__name__)

QUEUE = "wakeups"
LONGEST_WAIT = 0.3
"""Seconds that a request may lose to a Redis that does not answer."""
REST_SECONDS = 3.0
"""Seconds without wake-ups after a Redis that did not answer; the sweeper finds what they would have told."""
MARK_SECONDS = 5
REACHABLE_SECONDS = 60
LONGEST_UNTAKEN = 10.0
"""Seconds that the next wake-up may stay the next one before the sweeper does the work itself."""
JOB_SECONDS = 120


def connect(url: str, *, timeout: float = LONGEST_WAIT) -> redis.Redis:
    """Return a pooled client that gives up after `timeout` seconds, and does not try again."""
    return redis.Redis.from_url(
        url, socket_timeout=timeout, socket_connect_timeout=timeout, retry=Retry(NoBackoff(), 0)
    )


class RedisWakeups:
    """Sends wake-ups to the workers."""

    def __init__(self, url: str) -> None:
        self._redis = connect(url)
        self._queue = Queue(QUEUE, connection=self._redis, serializer=JSONSerializer)
        self._rest_until = 0.0

    def send(self, names: set[str]) -> None:
        """Wake the named jobs; a failure is logged, never raised."""
        if monotonic() < self._rest_until:
            return
        for name in sorted(names):
            try:
                if self._redis.set(mark(name), b"1", nx=True, ex=MARK_SECONDS):
                    self._queue.enqueue(
                        "jobs.registry.run", name, job_timeout=JOB_SECONDS, result_ttl=0, failure_ttl=60
                    )
            except redis.RedisError as error:
                logger.warning("wake-up of %s was not sent, the sweeper will find the work: %s", name, error)
                self._rest_after(error)
                return

    def started(self, name: str) -> None:
        """Record that the named job has started: from now on another wake-up of it is queued."""
        if monotonic() < self._rest_until:
            return  # the mark is gone by itself within seconds
        try:
            self._redis.delete(mark(name))
        except redis.RedisError as error:
            self._rest_after(error)

    def _rest_after(self, error: redis.RedisError) -> None:
        if isinstance(error, redis.TimeoutError):
            self._rest_until = monotonic() + REST_SECONDS


class WakeupWatch:
    """Tells whether workers take what they are sent.

    A Redis that is full answers, and takes nothing; one without workers takes everything, and nobody comes. The
    latter shows by the same wake-up being the next one all the while, by nobody's clock but ours.
    """

    def __init__(self, url: str, patience: float = LONGEST_UNTAKEN) -> None:
        self._redis = connect(url)
        self._queue_key = Queue(QUEUE, connection=self._redis, serializer=JSONSerializer).key
        self._patience = patience
        self._next: bytes | str | None = None
        self._since = 0.0

    def workers_come(self) -> bool:
        """Tell whether Redis takes a wake-up, and the next one has not waited for longer than our patience."""
        try:
            self._redis.set("sweeper:reachable", b"1", ex=REACHABLE_SECONDS)
            waiting = self._redis.lindex(self._queue_key, 0)
        except redis.RedisError:
            return False
        if waiting != self._next:
            self._next, self._since = waiting, monotonic()
        return waiting is None or monotonic() - self._since <= self._patience


def mark(name: str) -> str:
    """Return the Redis key that says that a wake-up of this name is waiting."""
    return f"wakeup:{name}"
