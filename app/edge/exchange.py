"""One request and its reply while they are inside the edge."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rules.access.permissions import Principal
from rules.ids import new_id
from schemas.replies import Stream


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
    cacheable: bool = False
    """Its headers say how long it may be kept; other replies may not be kept at all."""
    code: str | None = None
    """The error code, or why a stream ended early, for logs and metrics."""
    stream: Stream | None = None
    """The body, where it comes block by block; `body` is empty then."""


class RequestContext:
    """A request on its way through the edge; what is learnt about it is written here."""

    __slots__ = (
        "budget",
        "header",
        "operation_id",
        "principal",
        "receive",
        "reply",
        "request_id",
        "scope",
        "send",
        "started_at",
    )

    def __init__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.request_id = new_id("req")
        self.started_at = time.perf_counter()
        self.header: Callable[[bytes], bytes | None] = dict(scope["headers"]).get
        """Returns the header of a lower-case name; the last one of several."""
        self.operation_id: str | None = None
        self.principal: Principal | None = None
        self.budget: Budget | None = None
        self.reply: Reply | None = None

    def headers(self, name: bytes) -> list[bytes]:
        """Return every header of this lower-case name."""
        return [value for key, value in self.scope["headers"] if key == name]


class Headers(Mapping[str, str]):
    """The request's headers as text by lower-case name, decoded when they are asked for; of several the first."""

    __slots__ = ("_raw",)

    def __init__(self, raw: Sequence[tuple[bytes, bytes]]) -> None:
        self._raw = raw

    def __getitem__(self, name: str) -> str:
        wanted = name.lower().encode("latin-1")
        for key, value in self._raw:
            if key == wanted:
                return value.decode("latin-1")
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(key.decode("latin-1") for key, _ in self._raw))

    def __len__(self) -> int:
        return len({key for key, _ in self._raw})
