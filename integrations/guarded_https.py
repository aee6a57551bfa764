"""Requests to addresses that strangers choose.

Only https, without redirects, and with one limit for the time of everything. The name is resolved once, every address
of it must be public, and the connection goes to one of these addresses: a second answer of the name server changes
nothing. The name is used for SNI and for the certificate. A few threads do the work, so that slow servers and name
servers keep no others waiting.
"""

import http.client
import io
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from email.message import Message
from functools import cached_property
from time import monotonic
from urllib.parse import SplitResult, urlsplit

from integrations.spans import call_span
from rules.public_addresses import is_allowed

USER_AGENT = "change-freeze"
_OVERHEAD = 27 * 1024
"""Bytes of headers and chunks that are received besides a body."""

Resolve = Callable[[str, int], Sequence[str]]


class NotPublicError(Exception):
    """The host has no address, or one that is not of the public internet."""


class UnreachableError(Exception):
    """The host cannot be reached, has no valid certificate, does not speak HTTP, or sends too many headers."""


class TooSlowError(Exception):
    """The response was not complete within `Limits.timeout`."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one kind of requests."""

    timeout: float
    """Seconds for everything: the name, the connection and the response."""
    max_bytes: int
    """Bytes of a body that are returned; what follows is not read."""
    threads: int = 4
    """Requests at once; others wait, within their time."""


@dataclass(frozen=True, slots=True)
class GuardedResponse:
    """A response with the beginning of its body."""

    status: int
    headers: Message
    body: bytes


def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host. Raise OSError if it has none."""
    return [str(row[4][0]) for row in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


@dataclass
class GuardedHttps:
    """Sends requests; with `loopback`, for a service on one machine, also to that machine."""

    limits: Limits
    loopback: bool = False
    context: ssl.SSLContext | None = None
    """The certificates that it trusts; by default those of the system."""
    resolve: Resolve = resolve
    _threads: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self._threads = ThreadPoolExecutor(self.limits.threads, thread_name_prefix="guarded-https")

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> GuardedResponse:
        """Return the response of an https address. Raise NotPublicError, UnreachableError or TooSlowError."""
        deadline = monotonic() + self.limits.timeout
        parts = urlsplit(url)
        with call_span("HTTPS", method, parts.hostname or "") as span:
            working = self._threads.submit(self._send, method, parts, headers, body, deadline)
            try:
                response = working.result(self.limits.timeout)
            except (FutureTimeoutError, TimeoutError):
                working.cancel()
                raise TooSlowError from None
            span.add({"http.response.status_code": response.status})
        return response

    def _send(
        self, method: str, url: SplitResult, headers: Mapping[str, str], body: bytes, deadline: float
    ) -> GuardedResponse:
        host, port = url.hostname or "", url.port or 443
        address = self._address_of(host, port)
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        lines = [f"{method} {target} HTTP/1.1", f"Host: {url.netloc}", f"User-Agent: {USER_AGENT}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        try:
            with (
                socket.create_connection((address, port), timeout=_left(deadline)) as plain,
                self._trust.wrap_socket(plain, server_hostname=host) as connection,
            ):
                connection.settimeout(_left(deadline))
                connection.sendall("\r\n".join([*lines, "", ""]).encode("ascii") + body)
                received = _Received(connection, deadline, self.limits.max_bytes + _OVERHEAD)
                response = http.client.HTTPResponse(received, method=method)  # type: ignore[arg-type]  # needs `makefile` alone
                response.begin()
                return GuardedResponse(response.status, response.headers, response.read(self.limits.max_bytes))
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise UnreachableError(type(error).__name__) from None

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        """The certificates that we trust, which take a while to load."""
        return self.context or ssl.create_default_context()

    def _address_of(self, host: str, port: int) -> str:
        """Return the address to connect to. Raise NotPublicError unless all addresses of the host are allowed."""
        try:
            found = self.resolve(host, port)
        except (OSError, UnicodeError):
            found = []
        if not found or not all(is_allowed(address, loopback=self.loopback) for address in found):
            raise NotPublicError
        return found[0]


def _left(deadline: float) -> float:
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _Received(io.RawIOBase):
    """What a connection receives until the deadline, and not too much of it."""

    def __init__(self, connection: socket.socket, deadline: float, max_bytes: int) -> None:
        super().__init__()
        self._connection = connection
        self._deadline = deadline
        self._left = max_bytes

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return the stream that the standard library reads a response from."""
        return io.BufferedReader(self, 1024)

    def readable(self) -> bool:
        """True: it is read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the buffer of our own reader
        """Receive some bytes. Raise TimeoutError after the deadline, and OSError if there are too many."""
        self._connection.settimeout(_left(self._deadline))
        received = self._connection.recv_into(buffer)
        self._left -= received
        if self._left < 0:
            raise OSError("too large")
        return received
