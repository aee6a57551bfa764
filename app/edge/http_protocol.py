"""The HTTP/1.1 connection: limits and deadlines that uvicorn has no settings for, and refusals in the error envelope.

A request is refused here if it is not valid HTTP, too large or too slow. The protocol puts the error into the scope,
and the application raises it: so a refusal has the envelope, the request id and the access log line of every error.

uvicorn's own timer closes idle connections. The other deadlines are checked every few seconds for each connection,
which costs a request nothing.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.edge.request_context import REFUSAL
from rules.errors import ServiceError

MAX_HEAD_BYTES = 65_536
"""Request line and headers of a request, and as much of its trailers."""
MAX_HEADERS = 200
MAX_PIPELINED = 16
"""Requests of one connection that wait for the response to an earlier one."""
MAX_CHUNKS_AT_ONCE = 4096
"""Chunks of a body in the bytes of one read, which are handled in one go."""
_VERSIONS = ("1.0", "1.1")
_SINGLE_HEADERS = (b"authorization", b"host", b"transfer-encoding")
_TOO_LARGE = f"The request line and the headers are larger than {MAX_HEAD_BYTES} bytes."
_MAX_SHOWN_PATH = 200

Phase = Literal["new", "head", "body", "response", "idle", "refused"]
_RETRY_SECONDS = 1
_DISPENSABLE: tuple[Phase, ...] = ("idle", "new", "head", "body")
"""What connections wait for that make room for new ones, in this order; a request that is served is not given up."""


@dataclass(slots=True)
class ConnectionLimits:
    """Limits of one process."""

    open: int = 800
    """Open connections (`MAX_CONNECTIONS`): with the other files of the process fewer than the usual limit of 1024."""


LIMITS = ConnectionLimits()
"""The limits of this process."""


@dataclass(slots=True)
class ConnectionTimeouts:
    """Timeouts in seconds."""

    head: float = 15.0
    """For the request line and the headers, from the connection or from their first byte."""
    body: float = 30.0
    """For the body, from the end of the headers."""
    stall: float = 30.0
    """How long a client may read nothing of a response."""
    drain: float = 2.0
    """For one more request on an idle connection, when the process is to end."""
    close: float = 5.0
    """For the response to a refused request."""
    check_interval: float = 2.5


TIMEOUTS = ConnectionTimeouts()
"""The timeouts of this process."""


class _RefusedError(Exception):
    """Ends the parsing of a request that is refused; raised inside callbacks of the parser."""


class EdgeProtocol(HttpToolsProtocol):
    """One connection.

    Its phase says what it waits for: `new` (the first byte), `head`, `body` and `idle` (the next request) for the
    client, `response` for the application, `refused` for the end.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._phase: Phase = "new"
        self._since: float | None = None
        """The time of the loop at the first check in the phase, from which the phase is timed."""
        self._timer: asyncio.TimerHandle | None = None
        self._problem: str | None = None
        self._chunks = 0
        self._has_progressed = False
        """True if the bytes of the last read have begun a request, or belong to a body."""
        self._bytes_without_progress = 0
        self._read_bytes = 0
        self._head_bytes_bound = 0
        """At least as many as the head under way has: all bytes that were read since the head before."""
        self._unsent = 0
        self._unsent_since = 0.0
        self._draining_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch the connection."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._timer = self.loop.call_later(TIMEOUTS.check_interval, self._check)
        if len(self.connections) > LIMITS.open and not self._end_another():
            message = "There are too many connections. Try again."
            self._refuse(ServiceError("too_many_connections", message, retry_after=_RETRY_SECONDS))

    def _end_another(self) -> bool:
        """End the connection that can best be spared, in favour of this one; False if each of the others is served.

        An idle one is closed, then one that has sent nothing, then the one whose request has been unfinished longest.
        """
        others = [each for each in self.connections if isinstance(each, EdgeProtocol) and each is not self]
        dispensable = [each for each in others if each._phase in _DISPENSABLE]  # noqa: SLF001 - the same class
        if not dispensable:
            return False
        now = self.loop.time()
        min(dispensable, key=lambda each: each._rank(now))._give_way()  # noqa: SLF001
        return True

    def _rank(self, now: float) -> tuple[int, float]:
        """Return the place in the order in which connections are ended; one whose phase has just begun comes last."""
        return _DISPENSABLE.index(self._phase), self._since or now

    def _give_way(self) -> None:
        if self._phase in {"new", "idle"}:
            self._phase = "refused"
            self.transport.close()
        else:
            self._refuse(ServiceError("request_timeout", "The request did not arrive in time: others are waiting."))

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching the connection."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        """Note that the client has read."""
        self._unsent = -1
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Parse what was read. Refuse 64 KB that neither begin a request nor belong to a body."""
        if self._phase == "refused":
            return
        self._has_progressed, self._chunks = False, 0
        self._read_bytes = len(data)
        self._head_bytes_bound += self._read_bytes
        if self._phase == "new":
            self._phase, self._since = "head", None
        super().data_received(data)
        if self._has_progressed:
            self._bytes_without_progress = 0
        else:
            self._bytes_without_progress += len(data)
            if self._bytes_without_progress > MAX_HEAD_BYTES:
                self.send_400_response(_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._has_progressed = True
        self._phase, self._since = "head", None

    def on_headers_complete(self) -> None:
        """Begin to serve the request, or refuse it for its headers."""
        self._check_headers()
        if len(self.pipeline) >= MAX_PIPELINED:
            self._end_parsing(f"More than {MAX_PIPELINED} requests wait for the response to an earlier one.")
        super().on_headers_complete()
        if self._draining_since is not None:
            self.cycle.keep_alive = False
        self.headers = []  # trailers are read into this list, and ignored
        self._phase, self._since, self._head_bytes_bound = "body", None, self._read_bytes

    def on_body(self, body: bytes) -> None:
        """Read a part of the body."""
        self._has_progressed = True
        self._chunks += 1
        if self._chunks > MAX_CHUNKS_AT_ONCE:
            self._end_parsing("The chunks of the body are too small.")
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request; its response may be complete already."""
        self._has_progressed = True
        super().on_message_complete()
        self._phase, self._since = "idle" if self.cycle.response_complete else "response", None

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of this one."""
        super().on_response_complete()
        if self._phase == "response" and self.cycle.response_complete:
            self._phase, self._since = "idle", None

    def shutdown(self) -> None:
        """Serve one more request, unless the response under way announces the end; its client may have sent it already.

        uvicorn would close an idle connection at once, and lose a request that is on its way.
        """
        self._draining_since = self.loop.time()
        if self.cycle is not None and not self.cycle.response_complete and not self.cycle.response_started:
            self.cycle.keep_alive = False
        else:
            self.loop.call_later(TIMEOUTS.drain, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if self._phase in {"new", "idle"}:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be read."""
        self._refuse(ServiceError("malformed_request", self._problem or msg))

    def _check(self) -> None:
        """End the connection if the client has exceeded a timeout."""
        self._timer = self.loop.call_later(TIMEOUTS.check_interval, self._check)
        now = self.loop.time()
        if self._since is None:
            self._since = now  # a phase is timed from the first check in it, so that requests need no clock
        waited = now - self._since
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent != self._unsent:
            self._unsent, self._unsent_since = unsent, now
        if (unsent and now - self._unsent_since >= TIMEOUTS.stall) or (
            self._phase == "refused" and waited >= TIMEOUTS.close
        ):
            self.transport.abort()
        elif (self._phase == "new" and waited >= TIMEOUTS.head) or (
            self._phase == "idle" and waited >= self._idle_timeout() + TIMEOUTS.check_interval
        ):
            self.transport.close()
        elif self._phase == "head" and waited >= TIMEOUTS.head:
            self._refuse(ServiceError("request_timeout", "The headers did not arrive in time."))
        elif self._phase == "body" and waited >= TIMEOUTS.body:
            self._refuse(ServiceError("request_timeout", "The body did not arrive in time."))

    def _idle_timeout(self) -> float:
        return self.timeout_keep_alive if self._draining_since is None else TIMEOUTS.drain

    def _check_headers(self) -> None:
        """Refuse headers that are too large, or that two readers may understand differently (RFC 9112, 3.2 and 6.1)."""
        if self._head_bytes_bound > MAX_HEAD_BYTES:
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > MAX_HEAD_BYTES:
                self._end_parsing(_TOO_LARGE)
        if len(self.headers) > MAX_HEADERS:
            self._end_parsing(f"The request has more than {MAX_HEADERS} headers.")
        headers, version = dict(self.headers), self.parser.get_http_version()
        if version not in _VERSIONS:
            self._end_parsing(f"The request line says HTTP/{version}; this server speaks HTTP/1.1.")
        if b"host" not in headers and version != "1.0":
            self._end_parsing("The request has no Host header.")
        if len(headers) != len(self.headers):
            names = [name for name, _ in self.headers]
            for name in _SINGLE_HEADERS:
                if names.count(name) > 1:
                    self._end_parsing(f"The request has more than one {name.decode().title()} header.")
        if headers.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
            self._end_parsing("The only supported transfer coding is chunked.")

    def _end_parsing(self, problem: str) -> NoReturn:
        self._problem = problem
        raise _RefusedError(problem)

    def _refuse(self, error: ServiceError) -> None:
        """Respond with an error, and close the connection, whatever else the client sends."""
        phase, cycle = self._phase, self.cycle
        self._phase, self._since = "refused", None
        self._unset_keepalive_if_required()
        if cycle is None or (cycle.response_complete and phase != "body"):
            self._start_asgi_task(self._refused_request(error), self.app)
        elif cycle.response_complete:
            self.transport.abort()
        else:
            cycle.keep_alive = False
            if phase == "body":
                cast("dict[str, Any]", cycle.scope)[REFUSAL] = error
                cycle.message_event.set()

    def _refused_request(self, error: ServiceError) -> RequestResponseCycle:
        """Return a request for the application, in place of the one that could not be read."""
        if self.scope is None or (self.cycle is not None and self.scope is self.cycle.scope):
            super().on_message_begin()
        path = self.url.partition(b"?")[0][:_MAX_SHOWN_PATH].decode("latin-1")
        shown = {"method": "GET", "path": path, "raw_path": path.encode("latin-1"), "query_string": b""}
        scope: Any = {**self.scope, **shown, REFUSAL: error}
        self.cycle = RequestResponseCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=False,
            on_response=self.on_response_complete,
        )
        return self.cycle
