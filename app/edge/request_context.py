"""A request and its response inside the edge."""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_address
from typing import Any, NamedTuple

from app.logs import redact
from integrations.traces import Trace, accept_request_id, new_trace, read_traceparent
from rules.access.permissions import Principal
from rules.ids import new_id
from schemas.calls import ENTRANCE, REQUEST_ID, TRACE, Entrance
from schemas.replies import Stream

_MAX_ADDRESS_LENGTH = 100
LATE_BODY_SECONDS = 0.5
"""How long a read may take to arrive before its credential is checked again."""
REFUSAL = "change_freeze.refusal"
"""The key of the ServiceError in the scope of a request that the HTTP protocol refuses, also while its body is read."""

IDENTITY = "change_freeze.identity"
"""The key of the identity in the scope of a call by the MCP server or the Slack app, which have just checked it."""

UNKNOWN_ADDRESS = "unknown"


def client_address(text: str) -> str:
    """Return the network address of a client, as a proxy has stated it; whatever is none is UNKNOWN_ADDRESS."""
    try:
        return str(ip_address(text[:_MAX_ADDRESS_LENGTH]))
    except ValueError:
        return UNKNOWN_ADDRESS


class Budget(NamedTuple):
    """The rest of a credential's request budget, and the seconds until it is reset."""

    remaining: int
    reset: int


def budget_headers(budget: Budget) -> list[tuple[bytes, bytes]]:
    """Return the headers that say what is left of a budget."""
    remaining = (b"ratelimit-remaining", b"%d" % max(0, budget.remaining))
    return [remaining, (b"ratelimit-reset", b"%d" % budget.reset)]


@dataclass(slots=True)
class Reply:
    """A response that has not been sent, with all headers that the middleware does not add."""

    status: int
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    secret: bool = False
    """True if the body shows a secret: a stored copy must be encrypted."""
    cacheable: bool = False
    """True if the headers control caching; other responses are sent with `no-store`."""
    code: str | None = None
    """The error code, or why a stream ended early, for logs and metrics."""
    stream: Stream | None = None
    """The body of a streamed response; `body` is empty then."""
    until: datetime | None = None
    """Until when the same request may be answered with it from memory, under the same version of freezes."""
    authorize: Callable[[], Awaitable[object]] | None = None
    """Authorize a streamed response again; raise a 401, 403 or 410 code."""


class RequestContext:
    """The state of one request; each step of the pipeline adds what it learns."""

    __slots__ = (
        "budget",
        "entrance",
        "header",
        "operation_id",
        "principal",
        "receive",
        "reply",
        "request_id",
        "scope",
        "send",
        "started_at",
        "trace",
        "unverified_bytes",
    )

    def __init__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.entrance: Entrance | None = scope.get(ENTRANCE)
        """Where a call inside the process comes from; None for every request from the network."""
        self.started_at = time.perf_counter()
        self.header: Callable[[bytes], bytes | None] = dict(scope["headers"]).get
        """Returns a header by its lower-case name; if it is repeated, the last value."""
        self.request_id: str = scope.get(REQUEST_ID) or self._sent_request_id() or new_id("req")
        self.trace: Trace = scope.get(TRACE) or self._sent_trace()
        self.operation_id: str | None = None
        self.principal: Principal | None = None
        self.budget: Budget | None = None
        self.reply: Reply | None = None
        self.unverified_bytes = 0
        """Bytes of `UNVERIFIED_BODIES` that its body takes; whoever serves the request releases them at its end."""

    def _sent_request_id(self) -> str | None:
        """Return the id that the client has given the request; None if there is none that can be used."""
        if self.header(b"x-request-id") is None:
            return None
        sent = self.headers(b"x-request-id")
        return accept_request_id(sent[0].decode("latin-1"), redact) if len(sent) == 1 else None

    def _sent_trace(self) -> Trace:
        """Return the trace that the client continues with the request, or a new one."""
        if self.header(b"traceparent") is None:
            return new_trace(self.request_id)
        sent = self.headers(b"traceparent")
        return read_traceparent(sent[0].decode("latin-1") if len(sent) == 1 else "", self.request_id)

    @property
    def is_late(self) -> bool:
        """True if the request has taken so long that its credential may have been revoked meanwhile."""
        return time.perf_counter() - self.started_at > LATE_BODY_SECONDS

    def headers(self, name: bytes) -> list[bytes]:
        """Return all values of a header, by its lower-case name."""
        return [value for key, value in self.scope["headers"] if key == name]


class Headers(Mapping[str, str]):
    """Headers as text by lower-case name, decoded on access; if a header is repeated, the first value."""

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
