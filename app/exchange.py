"""One request and its reply while they are inside the edge."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rules.ids import new_id
from rules.permissions import Principal


class Budget(NamedTuple):
    """What a credential may still send: requests left, and whole seconds until there are more."""

    remaining: int
    reset: int


@dataclass(slots=True)
class Reply:
    """An answer that has not been sent: every header but the edge's own ones."""

    status: int
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    secret: bool = False
    """It shows a secret: a stored copy must be encrypted."""
    code: str | None = None
    """The error code, for logs and metrics."""


class Exchange:
    """A request on its way through the edge; what is learnt about it is written here."""

    __slots__ = ("budget", "operation_id", "principal", "receive", "reply", "request_id", "scope", "send", "started_at")

    def __init__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.request_id = new_id("req")
        self.started_at = time.perf_counter()
        self.operation_id: str | None = None
        self.principal: Principal | None = None
        self.budget: Budget | None = None
        self.reply: Reply | None = None

    def header(self, name: bytes) -> bytes | None:
        """Return the first header of this lower-case name."""
        for key, value in self.scope["headers"]:
            if key == name:
                return value  # type: ignore[no-any-return]
        return None

    def headers(self, name: bytes) -> list[bytes]:
        """Return every header of this lower-case name."""
        return [value for key, value in self.scope["headers"] if key == name]

    def all_headers(self) -> dict[str, str]:
        """Return the headers as text, by lower-case name; the last of a repeated one counts."""
        return {key.decode("latin-1"): value.decode("latin-1") for key, value in self.scope["headers"]}
