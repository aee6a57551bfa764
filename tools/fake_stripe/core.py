"""The state of the simulated Stripe and what everything else reads: objects, time, settings, key, faults, calls."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tools.fake_stripe.calls import Calls
from tools.fake_stripe.idempotency import IdempotencyKeys
from tools.fake_stripe.keys import Keys
from tools.fake_stripe.settings import Settings
from tools.fake_stripe.store import Store
from tools.simulation.faults import Faults

Json = dict[str, Any]
PAYLOAD_VERSION = "2020-08-27"
"""The API version of webhooks' payloads: an old one, as that of an endpoint which was set up years ago."""


class Core:
    """The account.

    `clock` returns the seconds since the epoch. The control plane moves the simulation's time ahead of it; signatures
    of webhooks are stamped with `clock`, since their receivers do not share the simulation's time.
    """

    def __init__(self, secret_key: str, clock: Callable[[], float] = time.time) -> None:
        self.base_url = "http://localhost"
        self.clock = clock
        self.ahead = 0
        """Seconds that the simulation's time is ahead of the clock."""
        self.lock = threading.RLock()
        self.store = Store()
        self.settings = Settings()
        self.keys = Keys(secret_key)
        self.idempotency = IdempotencyKeys()
        self.faults = Faults()
        self.calls = Calls()
        self.listeners: list[Callable[[Json], None]] = []
        self._moment: int | None = None

    @property
    def moment(self) -> int:
        """Return the simulation's time."""
        return self._moment if self._moment is not None else int(self.clock()) + self.ahead

    @contextmanager
    def at(self, moment: int) -> Iterator[None]:
        """Set the simulation's time during the block."""
        before, self._moment = self._moment, moment
        try:
            yield
        finally:
            self._moment = before

    def announce(self, event_type: str, record: Json) -> None:
        """Record that an object changed, with an event, and send it.

        Its payload is rendered as an old API version would, and nearly empty: a receiver has to retrieve the object.
        """
        self.store.changes += 1
        shown = {name: record[name] for name in ("id", "object", "customer") if name in record}
        fields = {
            "api_version": PAYLOAD_VERSION,
            "created": self.moment,
            "data": {"object": shown},
            "livemode": False,
            "pending_webhooks": 1 if self.settings.webhook_url else 0,
            "request": {"id": None, "idempotency_key": None},
            "type": event_type,
        }
        event = self.store.add("event", fields)
        for listener in self.listeners:
            listener(event)
