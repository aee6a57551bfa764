"""What was called since the last reset."""

from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request of the API with its answer; status 0: none was sent."""

    method: str
    template: str | None
    params: dict[str, Any]
    status: int
    body: Any


class Calls:
    """The last exchanges."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin again."""
        self.exchanges: deque[Exchange] = deque(maxlen=KEPT)

    @property
    def by_operation(self) -> Counter[str]:
        """Return how often each operation was called."""
        return Counter(f"{each.method} {each.template or '(unknown)'}" for each in self.exchanges)

    def as_json(self) -> dict[str, Any]:
        """Return the counters as the control plane shows them."""
        by_status = Counter(str(each.status) for each in self.exchanges)
        return {"byOperation": dict(self.by_operation), "byStatus": dict(by_status)}
