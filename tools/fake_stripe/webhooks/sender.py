"""Sends events in the background, in the order of their due times, and again when the receiver refuses them.

Several threads send, so the order of arrival is not certain, as at Stripe. What was held is released by one thread, in
the order that the release names.
"""

import heapq
import itertools
import json
import random
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from tools.fake_stripe.core import Core
from tools.fake_stripe.store import Json
from tools.fake_stripe.webhooks.signatures import signature_header
from tools.simulation.poster import Poster

KEPT = 1000
WORKERS = 4
LAST_WORDS = 1.0  # seconds that a post under way has at the end
ORDERS = ("sent", "reversed", "shuffled", "doubled")


@dataclass(slots=True)
class Delivery:
    """An event as it is sent, with what came back."""

    event: Json
    body: bytes
    attempts: int = 0
    status_code: int = 0
    statuses: list[int] = field(default_factory=list)

    @property
    def is_delivered(self) -> bool:
        """True if the receiver took it."""
        return 200 <= self.status_code < 300

    def as_json(self) -> dict[str, Any]:
        """Return the delivery as the control plane shows it."""
        return {
            "event": self.event["id"],
            "type": self.event["type"],
            "attempts": self.attempts,
            "statuses": self.statuses,
            "delivered": self.is_delivered,
        }


class Sender:
    """Sends what happens to the endpoint that is set."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.deliveries: OrderedDict[str, Delivery] = OrderedDict()
        self.held: list[Delivery] = []
        self._waiting: list[tuple[float, int, list[Delivery]]] = []
        self._order = itertools.count()
        self._ready = threading.Condition()
        self._busy = 0
        self._stopped = False
        self._threads: list[threading.Thread] = []

    def hear(self, event: Json) -> None:
        """Send an event, hold it, or drop it."""
        settings = self.core.settings
        if not settings.webhook_url or settings.webhooks == "drop":
            return
        if settings.webhook_events is not None and event["type"] not in settings.webhook_events:
            return
        body = json.dumps({**event, "pending_webhooks": 1}, indent=2).encode()  # pretty-printed, as Stripe's are
        delivery = Delivery(event, body)
        self.deliveries[event["id"]] = delivery
        if len(self.deliveries) > KEPT:
            self.deliveries.popitem(last=False)
        if settings.webhooks == "hold":
            self.held.append(delivery)
            return
        for due in self._due_times(f"webhook {event['type']}"):
            self._post(due, [delivery])

    def _due_times(self, label: str) -> list[float]:
        """Return when to send: once and now, unless a fault strikes."""
        faults, now = self.core.faults, time.monotonic()
        if faults.hit("webhook_drop", label):
            return []
        if delayed := faults.hit("webhook_delay", label):
            return [now + delayed.seconds]
        if shuffled := faults.hit("webhook_reorder", label):
            return [now + shuffled.chance.random() * shuffled.seconds]
        return [now, now] if faults.hit("webhook_duplicate", label) else [now]

    def release(self, order: str = "sent", seed: int = 0) -> int:
        """Send what is held, and return how many posts that are. Raise ValueError for an unknown order."""
        if order not in ORDERS:
            raise ValueError(f"unknown order {order}; known: {', '.join(ORDERS)}")
        held, self.held = self.held, []
        if order == "reversed":
            held.reverse()
        elif order == "shuffled":
            random.Random(seed).shuffle(held)
        elif order == "doubled":
            held = [*held, *held]
        if held:
            self._post(time.monotonic(), held)
        return len(held)

    def resend(self, event_id: str) -> None:
        """Send an event again, as the dashboard does. Raise KeyError if it was never to be sent."""
        self._post(time.monotonic(), [self.deliveries[event_id]])

    def _post(self, due: float, deliveries: list[Delivery]) -> None:
        with self._ready:
            if not self._threads and not self._stopped:
                self._start()
            heapq.heappush(self._waiting, (due, next(self._order), deliveries))
            self._ready.notify()

    def _start(self) -> None:
        for number in range(WORKERS):
            thread = threading.Thread(target=self._work, name=f"stripe-webhooks-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        poster = Poster()
        while (deliveries := self._take()) is not None:
            try:
                for delivery in deliveries:
                    self._send(poster, delivery)
            finally:
                with self._ready:
                    self._busy -= 1
                    self._ready.notify_all()
        poster.close()

    def _take(self) -> list[Delivery] | None:
        with self._ready:
            while not self._stopped:
                wait = self._waiting[0][0] - time.monotonic() if self._waiting else None
                if wait is not None and wait <= 0:
                    self._busy += 1
                    return heapq.heappop(self._waiting)[2]
                self._ready.wait(wait)
        return None

    def headers(self, delivery: Delivery) -> dict[str, str]:
        """Return the headers that Stripe sends."""
        header = signature_header(self.core.settings.webhook_secrets, int(self.core.clock()), delivery.body)
        return {
            "Accept": "*/*; q=0.5, application/xml",
            "Cache-Control": "no-cache",
            "Content-Type": "application/json; charset=utf-8",
            "Stripe-Signature": header,
            "User-Agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
        }

    def _send(self, poster: Poster, delivery: Delivery) -> None:
        settings = self.core.settings
        if not settings.webhook_url:
            return
        posted = poster.post(settings.webhook_url, delivery.body, self.headers(delivery))
        delivery.attempts += 1
        delivery.status_code = posted.status_code
        delivery.statuses.append(posted.status_code)
        if delivery.is_delivered:
            delivery.event["pending_webhooks"] = 0
        elif delivery.attempts < settings.webhook_attempts:
            later = settings.webhook_retry_seconds * 2 ** (delivery.attempts - 1)
            self._post(time.monotonic() + later, [delivery])

    def forget(self) -> None:
        """Forget what was sent, and what waits to be."""
        with self._ready:
            self.deliveries.clear()
            self.held.clear()
            self._waiting.clear()

    def drain(self, timeout: float = 10.0) -> bool:
        """Wait until everything due was sent; return whether it was."""
        with self._ready:
            return self._ready.wait_for(lambda: not self._waiting and not self._busy, timeout)

    def stop(self) -> None:
        """End the threads; what was not sent stays unsent."""
        with self._ready:
            self._stopped = True
            self._ready.notify_all()
        for thread in self._threads:
            thread.join(LAST_WORDS)
