"""A Redis that hangs costs the first wake-up a fraction of a second, and the next ones nothing.

Where Redis takes what nobody comes for, the sweeper notices.
"""

import socket
import threading
from collections.abc import Iterator

import pytest
from redis import Redis

from integrations.wakeups import QUEUE, RedisWakeups, WakeupWatch


def test_a_redis_that_hangs_is_left_alone_for_a_while() -> None:
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


def test_a_redis_that_refuses_is_tried_each_time() -> None:
    wakeups = RedisWakeups("redis://127.0.0.1:1/0")
    wakeups.send({"reconcile"})
    assert wakeups._paused_until == 0.0


@pytest.fixture
def wakeups(redis: Redis, redis_url: str) -> Iterator[RedisWakeups]:
    yield RedisWakeups(redis_url)
    redis.flushall()


def test_workers_that_have_nothing_to_take_are_believed_to_come(redis_url: str, wakeups: RedisWakeups) -> None:
    watch = WakeupWatch(redis_url, patience=0)
    assert watch.workers_available()
    assert watch.workers_available()


def test_workers_that_leave_the_same_wake_up_waiting_do_not_come(redis_url: str, wakeups: RedisWakeups) -> None:
    patient, impatient = WakeupWatch(redis_url), WakeupWatch(redis_url, patience=0)
    wakeups.send({"reconcile"})
    impatient.workers_available()
    assert patient.workers_available()
    assert not impatient.workers_available()


def test_workers_that_are_busy_and_take_one_after_the_other_come(
    redis: Redis, redis_url: str, wakeups: RedisWakeups
) -> None:
    watch = WakeupWatch(redis_url, patience=0.02)
    wakeups.send({"reconcile", "webhooks"})
    watch.workers_available()
    threading.Event().wait(0.05)
    redis.lpop(f"rq:queue:{QUEUE}")
    assert watch.workers_available()


def test_nobody_comes_where_redis_cannot_be_reached() -> None:
    assert not WakeupWatch("redis://127.0.0.1:1/0").workers_available()
