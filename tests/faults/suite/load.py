"""Load during a fault: an organisation starts and lifts freezes over HTTP, and people push."""

import random
import threading
import time
from types import TracebackType
from typing import Any, Self

from tests.faults.suite.client import Client, Ledger
from tests.faults.suite.people import People
from tests.faults.suite.seeding import Organization
from tests.faults.suite.stack import Stack

PAUSE = 0.15
PAUSE_OF_A_QUICK_RUN = 0.6
"""Seconds between two requests, and between two pushes: the load is half of what a quick run computes."""


class Load:
    """Two threads, one of freezes and one of pushes, until the end of the block; every freeze is lifted at the end."""

    def __init__(self, stack: Stack, ledger: Ledger, seed: int, *, of: Organization) -> None:
        self._over = threading.Event()
        self.client = Client(stack, of, ledger, self._over.is_set)
        self._people = People(stack, of)
        self._pause = PAUSE_OF_A_QUICK_RUN if stack.quick else PAUSE
        self._seed = seed
        self._running: list[str] = []
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._freeze_and_lift, self._push)]
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End after the requests that are in progress."""
        self._over.set()
        for thread in self._threads:
            thread.join(30)

    def leave_nothing(self) -> None:
        """Lift the freezes that still run. Call it when the service works again."""
        self._over = threading.Event()
        self.client.stop = lambda: False
        for freeze_id in self._running:
            self.client.lift(freeze_id)
        self._running.clear()

    def _freeze_and_lift(self) -> None:
        chance = random.Random(self._seed)
        try:
            while not self._over.is_set():
                if self._running and chance.random() < 0.5:
                    self.client.lift(self._running[0])
                    self._running.pop(0)
                else:
                    self._running.append(self.client.freeze(_scope(chance, self.client.organization.names)))
                self._over.wait(self._pause)
        except AssertionError as error:
            if str(error) != "stopped":
                self.failures.append(str(error))
        except Exception as error:  # noqa: BLE001 - reported by the runner, because this is a thread
            self.failures.append(repr(error))

    def _push(self) -> None:
        chance = random.Random(self._seed + 1)
        while not self._over.wait(self._pause):
            self._people.push_somewhere(chance)
            time.sleep(0)


def _scope(chance: random.Random, names: list[str]) -> dict[str, Any]:
    if chance.random() < 0.3:
        return {"type": "organization"}
    return {"type": "repositories", "repositories": chance.sample(names, 2)}
