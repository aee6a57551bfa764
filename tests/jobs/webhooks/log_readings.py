"""GitHub's log of webhooks, and what a test does to be missed by the service."""

from datetime import timedelta
from typing import Any

from services.maintenance.webhook_log import read_log
from services.webhooks.deliveries import receive
from tests.harness.github_harness import Harness
from tests.harness.webhook_queue import GITHUB_CALLER
from tools.fake_github.webhooks.sender import Delivery

NOWHERE = "http://127.0.0.1:9/nobody-listens"


class Log:
    """GitHub's log, whose deliveries reach nobody, and the readings of it."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.sender = harness.fake_github.sender
        self.calls = harness.fake_github.calls
        harness.fake_github.settings.webhook_url = NOWHERE
        harness.sql("INSERT INTO webhook_log (since, read_at) SELECT t, t FROM (SELECT now() - interval '5 s' AS t) t")

    def read(self) -> bool:
        """Read it now; True if it was due. What was sent by then is in it."""
        assert self.sender.drain()
        self.harness.sql("UPDATE webhook_log SET due_at = now() - interval '1 day'")
        return read_log(self.harness.jobs, self.harness.github)

    def delivered(self) -> list[Delivery]:
        """Return what was sent, oldest first."""
        assert self.sender.drain()
        return list(self.sender.deliveries.values())

    def arrive(self, delivery: Delivery) -> bool:
        """Deliver it now; False if it was known."""
        signature = self.sender.headers(delivery)["X-Hub-Signature-256"]
        with self.harness.uow_factory.open(GITHUB_CALLER) as uow:
            return not receive(uow, delivery.body, signature, delivery.event, delivery.guid)["duplicate"]

    def stored(self) -> list[tuple[str, bool]]:
        """Return the event of each delivery that is stored, and whether it was processed."""
        rows = self.harness.sql("SELECT event, processed_at IS NOT NULL FROM webhook_deliveries ORDER BY received_at")
        return [(row[0], row[1]) for row in rows]

    def mark(self) -> Any:
        """Return the row."""
        [row] = self.harness.sql("SELECT *, due_at - now() AS wait FROM webhook_log")
        return row

    def resyncs(self) -> int:
        """Return whether a full resync was requested."""
        return len(self.harness.sql("SELECT FROM periodic_tasks WHERE name = 'full_resync'"))

    def pass_time(self, **length: float) -> None:
        """Let time pass for the service."""
        self.harness.pass_time(timedelta(**length))

    @property
    def payloads(self) -> int:
        """How many payloads were read."""
        return self.calls.by_operation["GET /app/hook/deliveries/{delivery_id}"]

    @property
    def pages(self) -> int:
        """How many pages were read."""
        return self.calls.by_operation["GET /app/hook/deliveries"]
