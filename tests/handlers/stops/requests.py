"""What is done to stops, and what the API says of the freeze that they hold."""

from dataclasses import dataclass, field
from typing import Any

from tests.handlers.blocking.claims import Frozen
from tests.handlers.callers import answered
from tests.harness.github_harness import Harness
from tests.jobs.bypass_detection.pushes import Clocks
from tests.jobs.stops.requests import stop


@dataclass(slots=True)
class Stopped:
    """An organisation with a freeze that a stop holds, asked through the API."""

    frozen: Frozen
    workers: Harness
    clocks: Clocks
    number: int
    """One of the pull requests."""
    freeze_id: str = field(default="", init=False)

    def start(self) -> str:
        """Start a freeze, and do what is due for its stop, but write no check; return its id."""
        self.freeze_id = self.frozen.start()
        self.stop()
        return self.freeze_id

    def stop(self) -> None:
        """Do what is due for stops, and let GitHub enforce it."""
        for _ in range(3):
            stop(self.workers)
            self.clocks.pass_by(seconds=21)
        stop(self.workers)

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        return answered(self.frozen.acme.person("viewer").get(path, **params))

    def freeze(self) -> dict[str, Any]:
        return self.get(f"/v1/freezes/{self.freeze_id}")

    def audited(self, action: str) -> dict[str, Any]:
        """Return the details of the only entry of an action."""
        [entry] = self.get("/v1/audit", action=action)["data"]
        details: dict[str, Any] = entry["details"]
        return details
