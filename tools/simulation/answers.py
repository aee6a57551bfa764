"""An answer before it is sent."""

from dataclasses import dataclass, field
from typing import Any

import orjson


@dataclass(slots=True)
class Answer:
    """A status, a body and headers. The body is JSON, or bytes that are sent as they are; None sends none."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """Return the body's bytes."""
        if self.body is None:
            return b""
        return self.body if isinstance(self.body, bytes) else orjson.dumps(self.body)
