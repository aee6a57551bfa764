"""A receiver of GitHub's webhooks, for tests."""

import json
from typing import Any

from tools.simulation.webhook_receiver import WebhookReceiver


class GitHubWebhookReceiver(WebhookReceiver):
    """Receives webhooks over HTTP at `url`, answers with `status`, and keeps (event, headers, raw body)."""

    def __init__(self) -> None:
        super().__init__("/webhooks/github")

    @property
    def received(self) -> list[tuple[str, dict[str, str], bytes]]:
        """Return event, headers and raw body of everything received."""
        return [(headers.get("X-GitHub-Event", ""), headers, body) for headers, body in self.deliveries]

    def bodies(self, event: str) -> list[dict[str, Any]]:
        """Return the bodies of an event's webhooks, in the order they arrived."""
        return [json.loads(body) for name, _, body in self.received if name == event]

    def names(self) -> set[str]:
        """Return `event.action` of everything received."""
        found = ((name, json.loads(body).get("action")) for name, _, body in self.received)
        return {f"{name}.{action}" if action else name for name, action in found}
