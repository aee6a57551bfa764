"""Sends events in the background, and again when the receiver refuses them.

What was held is released by one thread, in the order that the release names.
"""

import json
import random
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from tools.fake_stripe.core import Core
from tools.fake_stripe.store import Json
from tools.fake_stripe.webhooks.signatures import signature_header
from tools.simulation.post_queue import PostQueue, delays_of
from tools.simulation.poster import Poster

KEPT = 1000
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


class Sender(PostQueue[list[Delivery]]):
    """Sends what happens to the endpoint that is set."""

    def __init__(self, core: Core) -> None:
        super().__init__("stripe-webhooks")
        self.core = core
        self.deliveries: OrderedDict[str, Delivery] = OrderedDict()
        self.held: list[Delivery] = []

    def receive(self, event: Json) -> None:
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
        for delay in delays_of(self.core.faults, f"webhook {event['type']}"):
            self.enqueue([delivery], delay)

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
            self.enqueue(held)
        return len(held)

    def resend(self, event_id: str) -> None:
        """Send an event again, as the dashboard does. Raise KeyError if it was never to be sent."""
        self.enqueue([self.deliveries[event_id]])

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

    def send(self, poster: Poster, deliveries: list[Delivery], /) -> None:
        """Send deliveries one after the other."""
        for delivery in deliveries:
            self._send_one(poster, delivery)

    def _send_one(self, poster: Poster, delivery: Delivery) -> None:
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
            self.enqueue([delivery], later)

    def forget(self) -> None:
        """Forget what was sent, and what waits to be."""
        super().forget()
        self.deliveries.clear()
        self.held.clear()
