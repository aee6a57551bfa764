"""A Redis that hangs costs the first wake-up a fraction of a second, and the next ones nothing.

The sweeper detects wake-ups that Redis accepts and no worker takes.
"""

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from redis import Redis

from integrations.wakeups import QUEUE, RedisWakeups, WakeupWatch


def test_unresponsive_redis_is_not_retried_for_a_while() -> None:
    taken = []
    with socket.create_server(("127.0.0.1", 0)) as silent:

        def take() -> None:
            while True:
                try:
                    taken.append(silent.accept()[0])
                except OSError:
                    return

        listening = threading.Thread(target=take, daemon=True)
        listening.start()
        wakeups = RedisWakeups(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        for _ in range(5):
            wakeups.send({"reconcile", "webhooks"})
            wakeups.started("reconcile")
        silent.shutdown(socket.SHUT_RDWR)
        listening.join(5)
    for connection in taken:
        connection.close()
    assert len(taken) == 1


def test_refusing_redis_is_retried_each_time() -> None:
    wakeups = RedisWakeups("redis://127.0.0.1:1/0")
    wakeups.send({"reconcile"})
    assert wakeups._paused_until == 0.0


@pytest.fixture
def wakeups(redis: Redis, redis_url: str) -> Iterator[RedisWakeups]:
    yield RedisWakeups(redis_url)
    redis.flushall()


def test_workers_are_assumed_to_run_when_no_wake_up_waits(redis_url: str, wakeups: RedisWakeups) -> None:
    watch = WakeupWatch(redis_url, max_untaken_seconds=0)
    assert watch.workers_available()
    assert watch.workers_available()


def test_workers_are_not_running_when_the_same_wake_up_stays(redis_url: str, wakeups: RedisWakeups) -> None:
    patient, impatient = WakeupWatch(redis_url), WakeupWatch(redis_url, max_untaken_seconds=0)
    wakeups.send({"reconcile"})
    impatient.workers_available()
    assert patient.workers_available()
    assert not impatient.workers_available()


def test_busy_workers_that_take_wake_ups_in_turn_are_running(
    redis: Redis, redis_url: str, wakeups: RedisWakeups
) -> None:
    watch = WakeupWatch(redis_url, max_untaken_seconds=0.02)
    wakeups.send({"reconcile", "webhooks"})
    watch.workers_available()
    time.sleep(0.05)
    redis.lpop(f"rq:queue:{QUEUE}")
    assert watch.workers_available()


def test_workers_are_not_running_when_redis_is_unreachable() -> None:
    assert not WakeupWatch("redis://127.0.0.1:1/0").workers_available()
