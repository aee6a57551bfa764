"""A queue of webhooks, which a few threads send once they are due.

They may arrive in another order, as those of GitHub and Stripe do.
"""

import heapq
import itertools
import threading
import time
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from tools.simulation.faults import Faults
from tools.simulation.poster import Poster

WORKERS = 4
STOP_TIMEOUT = 1.0
"""Seconds that a post which is being sent has left when the queue is stopped."""

Post = TypeVar("Post")


class PostQueue(ABC, Generic[Post]):
    """Sends each post once it is due. The threads, which the first post starts, have a `Poster` each."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: list[tuple[float, int, Post]] = []
        self._order = itertools.count()
        self._ready = threading.Condition()
        self._busy = 0
        self._stopped = False
        self._threads: list[threading.Thread] = []

    @abstractmethod
    def send(self, poster: Poster, post: Post, /) -> None:
        """Send a post that is due."""

    def enqueue(self, post: Post, delay: float = 0.0) -> None:
        """Send a post after `delay` seconds."""
        with self._ready:
            if not self._threads and not self._stopped:
                for number in range(WORKERS):
                    thread = threading.Thread(target=self._work, name=f"{self._name}-{number}", daemon=True)
                    self._threads.append(thread)
                    thread.start()
            heapq.heappush(self._waiting, (time.monotonic() + delay, next(self._order), post))
            self._ready.notify()

    def forget(self) -> None:
        """Drop the posts that wait to be sent."""
        with self._ready:
            self._waiting.clear()
            self._ready.notify_all()

    def _work(self) -> None:
        poster = Poster()
        while (due := self._take()) is not None:
            try:
                self.send(poster, due[0])
            finally:
                with self._ready:
                    self._busy -= 1
                    self._ready.notify_all()
        poster.close()

    def _take(self) -> tuple[Post] | None:
        """Wait for a post that is due; None at the end."""
        with self._ready:
            while not self._stopped:
                wait = self._waiting[0][0] - time.monotonic() if self._waiting else None
                if wait is not None and wait <= 0:
                    self._busy += 1
                    return (heapq.heappop(self._waiting)[2],)
                self._ready.wait(wait)
        return None

    def drain(self, timeout: float = 60.0) -> bool:
        """Wait until all posts were sent, those with a delay too; return False if that takes longer than `timeout`."""
        with self._ready:
            return self._ready.wait_for(lambda: not self._waiting and not self._busy, timeout)

    def stop(self) -> None:
        """End the threads; what was not sent stays unsent."""
        with self._ready:
            self._stopped = True
            self._ready.notify_all()
        for thread in self._threads:
            thread.join(STOP_TIMEOUT)


def delays_of(faults: Faults, label: str) -> list[float]:
    """Return the delay of each time that a webhook is sent: once and at once, unless a fault matches `label`."""
    if faults.hit("webhook_drop", label):
        return []
    if delayed := faults.hit("webhook_delay", label):
        return [delayed.seconds]
    if shuffled := faults.hit("webhook_reorder", label):
        return [shuffled.chance.random() * shuffled.seconds]
    return [0.0, 0.0] if faults.hit("webhook_duplicate", label) else [0.0]
