"""Webhooks: events are signed, sent in the background, and sent again when the receiver refuses them.

What was held is released by one thread, in the order that the release names.
"""

import hashlib
import hmac
import json
import random
from collections import OrderedDict
from dataclasses import dataclass

from tools.fake_stripe.core import Core
from tools.fake_stripe.store import Json
from tools.simulation.post_queue import PostQueue
from tools.simulation.poster import Poster

KEPT = 1000


def signature_header(secrets: list[str], timestamp: int, body: bytes) -> str:
    """Return `Stripe-Signature`: a `v1` for each secret, and the `v0` of test mode, which proves nothing."""
    signed = b"%d.%s" % (timestamp, body)
    proofs = [f"v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}" for secret in secrets]
    return ",".join([f"t={timestamp}", *proofs, f"v0={'0' * 64}"])


@dataclass(slots=True)
class Delivery:
    """An event as it is sent, with what came back."""

    event: Json
    body: bytes
    attempts: int = 0
    status_code: int = 0

    @property
    def is_delivered(self) -> bool:
        """True if the receiver took it."""
        return 200 <= self.status_code < 300


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
        body = json.dumps({**event, "pending_webhooks": 1}, indent=2).encode()  # pretty-printed, as Stripe's are
        delivery = Delivery(event, body)
        self.deliveries[event["id"]] = delivery
        if len(self.deliveries) > KEPT:
            self.deliveries.popitem(last=False)
        if settings.webhooks == "hold":
            self.held.append(delivery)
            return
        self.enqueue([delivery])

    def release(self, order: str = "sent", seed: int = 0) -> int:
        """Send what is held, as `sent`, `reversed`, `shuffled` or `doubled`, and return how many posts that are."""
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

    def send(self, poster: Poster, deliveries: list[Delivery], /) -> None:
        """Send deliveries one after the other."""
        for delivery in deliveries:
            self._send_one(poster, delivery)

    def _send_one(self, poster: Poster, delivery: Delivery) -> None:
        settings = self.core.settings
        if not settings.webhook_url:
            return
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "Stripe-Signature": signature_header(settings.webhook_secrets, int(self.core.clock()), delivery.body),
            "User-Agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
        }
        delivery.status_code = poster.post(settings.webhook_url, delivery.body, headers).status_code
        delivery.attempts += 1
        if not delivery.is_delivered and delivery.attempts < settings.webhook_attempts:
            self.enqueue([delivery], settings.webhook_retry_seconds * 2 ** (delivery.attempts - 1))

    def forget(self) -> None:
        """Forget what was sent, and what waits to be."""
        super().forget()
        self.deliveries.clear()
        self.held.clear()
