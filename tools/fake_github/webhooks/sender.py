"""Sends webhooks in the background, signed as GitHub signs them, once: a failed delivery is recorded, not repeated."""

import hashlib
import hmac
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import orjson

from tools.fake_github.core import Core
from tools.fake_github.model.identifiers import timestamp
from tools.fake_github.model.records import Installation
from tools.fake_github.model.world import Event
from tools.fake_github.webhooks.payloads import make_body
from tools.simulation.post_queue import PostQueue, delays_of
from tools.simulation.poster import Poster

KEPT = 4000
KEPT_FOR = timedelta(days=3)
"""For how long the log of deliveries has one."""
PENDING = "pending"
"""The status of a delivery that was not tried yet: the log does not have it."""
ONLY_TO_OWNER = {"rerequested", "requested_action"}


@dataclass(slots=True)
class Delivery:
    """One webhook as sent, with what came back."""

    id: int
    guid: str
    event: str
    action: str | None
    body: bytes
    installation_id: int
    repository_id: int | None
    delivered_at: str
    redelivery: bool = False
    status_code: int = 0
    status: str = PENDING
    duration: float = 0.0
    url: str = ""
    request_headers: dict[str, str] = field(default_factory=dict)
    response_headers: dict[str, str] = field(default_factory=dict)
    response_body: str = ""

    def summary(self) -> dict[str, Any]:
        """Shape the delivery as lists do."""
        return {
            "id": self.id,
            "guid": self.guid,
            "delivered_at": self.delivered_at,
            "redelivery": self.redelivery,
            "duration": round(self.duration, 2),
            "status": self.status,
            "status_code": self.status_code,
            "event": self.event,
            "action": self.action,
            "installation_id": self.installation_id,
            "repository_id": self.repository_id,
            "throttled_at": None,
        }

    def whole(self) -> dict[str, Any]:
        """Shape the delivery with its request and response."""
        return {
            **self.summary(),
            "url": self.url,
            "request": {"headers": self.request_headers, "payload": orjson.loads(self.body)},
            "response": {"headers": self.response_headers, "payload": self.response_body},
        }


def signature(secret: str, body: bytes) -> str:
    """Return the value of `X-Hub-Signature-256`."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class Sender(PostQueue[Delivery]):
    """Turns events into deliveries and sends them."""

    def __init__(self, github: Core) -> None:
        super().__init__("webhooks")
        self.github = github
        self.deliveries: OrderedDict[int, Delivery] = OrderedDict()

    def receive(self, event: Event) -> None:
        """Create the delivery of an event, if there is a receiver."""
        settings = self.github.settings
        if not settings.webhook_url:
            return
        if settings.webhook_events is not None and event.name not in settings.webhook_events:
            return
        installation = self._audience(event)
        if installation is None:
            return
        body = orjson.dumps(make_body(self.github.view, event, installation))
        repository_id = event.repository.id if event.repository else None
        self._record(event.name, event.action, body, installation.id, repository_id, str(uuid.uuid4()))

    def _label(self, delivery: Delivery) -> str:
        """Return what faults are matched with."""
        repository = self.github.world.repositories.get(delivery.repository_id or 0)
        name = self.github.world.full_name(repository) if repository else ""
        return f"webhook {delivery.event}.{delivery.action or ''} {name}"

    def _audience(self, event: Event) -> Installation | None:
        """Return the installation that an event is sent to."""
        named = event.facts.get("installation")
        if isinstance(named, Installation):
            return named
        ruleset = event.facts.get("ruleset")
        owner = event.facts.get("organization", 0)
        account_id = event.repository.owner_id if event.repository else getattr(ruleset, "source_id", owner)
        found = self.github.world.installed.get(account_id)
        if found is None or found.suspended_at or event.name not in found.events:
            return None
        if (
            event.repository
            and found.repository_selection == "selected"
            and event.repository.id not in found.repository_ids
        ):
            return None
        about = event.facts.get("run") or event.facts.get("suite")
        if about is not None and event.action in ONLY_TO_OWNER and about.app_id != found.app_id:
            return None
        return found

    def redeliver(self, delivery: Delivery) -> None:
        """Send a delivery again under its GUID."""
        self._record(
            delivery.event,
            delivery.action,
            delivery.body,
            delivery.installation_id,
            delivery.repository_id,
            delivery.guid,
            redelivery=True,
        )

    def _record(
        self,
        event: str,
        action: str | None,
        body: bytes,
        installation_id: int,
        repository_id: int | None,
        guid: str,
        *,
        redelivery: bool = False,
    ) -> None:
        world = self.github.world
        delivery = Delivery(
            world.next_id(), guid, event, action, body, installation_id, repository_id, world.now(), redelivery
        )
        self.deliveries[delivery.id] = delivery
        if len(self.deliveries) > KEPT:
            self.deliveries.popitem(last=False)
        for delay in delays_of(self.github.faults, self._label(delivery)):
            self.enqueue(delivery, delay)

    def log(self) -> list[Delivery]:
        """Return what the log of deliveries has: those that were tried in the last three days, newest first."""
        oldest = timestamp(self.github.world.clock() - KEPT_FOR)
        tried = (found for found in list(self.deliveries.values()) if found.status != PENDING)
        return [found for found in reversed(list(tried)) if found.delivered_at >= oldest]

    def forget(self) -> None:
        """Forget what was sent, and what waits to be sent."""
        super().forget()
        self.deliveries.clear()

    def headers(self, delivery: Delivery) -> dict[str, str]:
        """Return the headers that GitHub sends."""
        secret = self.github.settings.webhook_secret
        found = {
            "Accept": "*/*",
            "Content-Type": "application/json",
            "User-Agent": "GitHub-Hookshot/c0de405",
            "X-GitHub-Event": delivery.event,
            "X-GitHub-Delivery": delivery.guid,
            "X-GitHub-Hook-ID": str(self.github.app_id),
            "X-GitHub-Hook-Installation-Target-ID": str(self.github.app_id),
            "X-GitHub-Hook-Installation-Target-Type": "integration",
        }
        if secret:
            found["X-Hub-Signature-256"] = signature(secret, delivery.body)
        return found

    def send(self, poster: Poster, delivery: Delivery, /) -> None:
        """Send a delivery, and record the response in it."""
        url = self.github.settings.webhook_url
        if not url:
            return
        delivery.url, delivery.request_headers = url, self.headers(delivery)
        delivery.delivered_at = self.github.world.now()
        posted = poster.post(url, delivery.body, delivery.request_headers)
        delivery.status_code, delivery.duration = posted.status_code, posted.seconds
        delivery.response_headers, delivery.response_body = posted.headers, posted.body
        delivery.status = posted.status  # last: from now on the log has it
