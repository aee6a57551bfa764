"""What was called since the last reset."""

from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request of the API with its answer; status 0: none was sent."""

    method: str
    path: str
    template: str | None
    params: dict[str, Any]
    status: int
    body: Any
    idempotency_key: str | None
    replayed: bool

    def as_json(self) -> dict[str, Any]:
        """Return the exchange as the control plane shows it."""
        return {
            "method": self.method,
            "path": self.path,
            "params": self.params,
            "status": self.status,
            "idempotencyKey": self.idempotency_key,
            "replayed": self.replayed,
        }


class Calls:
    """Counters, and the last exchanges."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin again."""
        self.by_operation: Counter[str] = Counter()
        self.by_status: Counter[int] = Counter()
        self.exchanges: deque[Exchange] = deque(maxlen=KEPT)

    def record(self, exchange: Exchange) -> None:
        """Count an exchange."""
        self.by_operation[f"{exchange.method} {exchange.template or '(unknown)'}"] += 1
        self.by_status[exchange.status] += 1
        self.exchanges.append(exchange)

    def as_json(self) -> dict[str, Any]:
        """Return the counters and the exchanges without their answers."""
        return {
            "byOperation": dict(self.by_operation),
            "byStatus": {str(status): count for status, count in self.by_status.items()},
            "exchanges": [each.as_json() for each in self.exchanges],
        }
