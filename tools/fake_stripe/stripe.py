"""The simulated Stripe as one object."""

import time
from collections.abc import Callable
from pathlib import Path

from tools.fake_stripe import persistence
from tools.fake_stripe.core import Core
from tools.fake_stripe.keys import SECRET_KEY
from tools.fake_stripe.timeline import catch_up
from tools.fake_stripe.webhooks import Sender


class FakeStripe(Core):
    """A simulated Stripe: objects, time, webhooks, faults and counters.

    If the file `state` exists, the objects are read from it; `save` writes it. `tools.fake_stripe.serve` serves it over
    HTTP. `clock` returns the seconds since the epoch.
    """

    def __init__(
        self,
        *,
        secret_key: str = SECRET_KEY,
        webhook_url: str | None = None,
        webhook_secrets: tuple[str, ...] = (),
        state: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(secret_key, clock)
        self.state = state
        if state:
            persistence.load(self, state)
        self.settings.webhook_url = webhook_url or self.settings.webhook_url
        self.settings.webhook_secrets = list(webhook_secrets) or self.settings.webhook_secrets
        self.sender = Sender(self)
        self.listeners = [self.sender.receive]
        self._saved = -1

    def reset(self) -> None:
        """Delete everything but keys and settings."""
        with self.lock:
            self.store.clear()
            self.idempotency.kept.clear()
            self.faults.clear()
            self.calls.reset()
            self.sender.forget()
            self.ahead = 0

    def advance(self, seconds: int) -> None:
        """Let time pass."""
        with self.lock:
            self.ahead += seconds
            catch_up(self)

    def save(self) -> None:
        """Write the state file, if there is one and something changed."""
        if self.state and self._saved != self.store.changes:
            changes = self.store.changes
            persistence.save(self, self.state)
            self._saved = changes
