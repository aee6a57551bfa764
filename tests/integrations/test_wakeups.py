"""A Redis that hangs costs the first wake-up a fraction of a second, and the next ones nothing."""

import socket
import threading

from integrations.wakeups import RedisWakeups


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
            wakeups.begun("reconcile")
        silent.shutdown(socket.SHUT_RDWR)
        listening.join(5)
    for connection in taken:
        connection.close()
    assert len(taken) == 1


def test_a_redis_that_refuses_is_tried_each_time() -> None:
    wakeups = RedisWakeups("redis://127.0.0.1:1/0")
    wakeups.send({"reconcile"})
    assert wakeups._rest_until == 0.0
