"""What was called since the last reset."""

from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Exchange:
    """A call of a method with its answer; status 0: none was sent."""

    method: str
    params: dict[str, Any]
    status: int
    body: Any

    def as_json(self) -> dict[str, Any]:
        """Return the exchange as the control plane shows it."""
        return {"method": self.method, "params": self.params, "status": self.status, "body": self.body}


class Calls:
    """Counters, and the last exchanges."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin again."""
        self.by_method: Counter[str] = Counter()
        self.exchanges: deque[Exchange] = deque(maxlen=KEPT)

    def record(self, exchange: Exchange) -> None:
        """Count an exchange."""
        self.by_method[exchange.method] += 1
        self.exchanges.append(exchange)

    def as_json(self) -> dict[str, Any]:
        """Return the counters and the exchanges."""
        return {"byMethod": dict(self.by_method), "exchanges": [each.as_json() for each in self.exchanges]}
