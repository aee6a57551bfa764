"""Fetches client id metadata documents from addresses that strangers choose.

Only https, without redirects, 5 KB and 5 seconds in all. The name is resolved once, every address of it must be public,
and the connection goes to one of these addresses: a second answer of the name server changes nothing. The name is used
for SNI and for the certificate. A few threads do the work, so that slow servers keep no others waiting.
"""

import http.client
import io
import ipaddress
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from functools import cached_property
from time import monotonic
from urllib.parse import SplitResult, urlsplit

from rules.access.client_documents import ClientRefusedError

logger = logging.getLogger(__name__)

MAX_BYTES = 5 * 1024
MAX_RECEIVED_BYTES = 32 * 1024
"""With headers and chunks."""
TIMEOUT = 5.0
"""Seconds for everything: the name, the connection and the document."""
_THREADS = 4
_EMBEDDING = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))
"""IPv6 networks whose addresses lead to IPv4 addresses."""

Resolve = Callable[[str, int], Sequence[str]]


@dataclass(frozen=True, slots=True)
class FetchedDocument:
    """A document, and the header that says for how long it may be kept."""

    body: bytes
    cache_control: str


def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host. Raise OSError if it has none."""
    return [str(row[4][0]) for row in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class ClientDocuments:
    """Fetches documents; with `loopback`, for a service on one machine, also from that machine."""

    def __init__(
        self,
        *,
        loopback: bool = False,
        context: ssl.SSLContext | None = None,
        resolve: Resolve = resolve,
        timeout: float = TIMEOUT,
    ) -> None:
        self._loopback = loopback
        self._context = context
        self._resolve = resolve
        self._timeout = timeout
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="client-document")

    def fetch(self, client_id: str) -> FetchedDocument:
        """Return the document at an address that is a valid client id. Raise ClientRefusedError."""
        deadline = monotonic() + self._timeout
        working = self._threads.submit(self._fetch, urlsplit(client_id), deadline)
        try:
            return working.result(self._timeout)
        except (FutureTimeoutError, TimeoutError):
            working.cancel()
            raise ClientRefusedError("The document of the client came too slowly.") from None

    def _fetch(self, address: SplitResult, deadline: float) -> FetchedDocument:
        host, port = address.hostname or "", address.port or 443
        chosen = self._address_of(host, port)
        target = address.path + (f"?{address.query}" if address.query else "")
        try:
            with (
                socket.create_connection((chosen, port), timeout=_left(deadline)) as plain,
                self._trust.wrap_socket(plain, server_hostname=host) as connection,
            ):
                connection.settimeout(_left(deadline))
                connection.sendall(
                    f"GET {target} HTTP/1.1\r\nHost: {address.netloc}\r\nAccept: application/json\r\n"
                    "User-Agent: change-freeze\r\nConnection: close\r\n\r\n".encode("ascii")
                )
                response = http.client.HTTPResponse(_Received(connection, deadline))  # type: ignore[arg-type]  # needs `makefile` alone
                response.begin()
                body = response.read(MAX_BYTES + 1)
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            logger.info("client document at %s: %s", host, type(error).__name__)
            raise ClientRefusedError(f"{host} cannot be reached, or does not speak https.") from None
        if response.status != 200:
            raise ClientRefusedError(f"The document of the client is not there: {host} answered {response.status}.")
        media = response.headers.get_content_type() if "content-type" in response.headers else ""
        if media != "application/json" and not media.endswith("+json"):
            raise ClientRefusedError("The document of the client is not JSON.")
        if len(body) > MAX_BYTES:
            raise ClientRefusedError(f"The document of the client is larger than {MAX_BYTES} bytes.")
        return FetchedDocument(body, ", ".join(response.headers.get_all("cache-control", ())))

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        """The certificates that we trust, which take a while to load."""
        return self._context or ssl.create_default_context()

    def _address_of(self, host: str, port: int) -> str:
        """Return the address to connect to. Raise ClientRefusedError unless all addresses of the host are allowed."""
        try:
            found = self._resolve(host, port)
        except (OSError, UnicodeError):
            found = []
        if not found or not all(self._is_allowed(address) for address in found):
            raise ClientRefusedError(f"{host} is not a host of the public internet.")
        return found[0]

    def _is_allowed(self, address: str) -> bool:
        parsed = ipaddress.ip_address(address.partition("%")[0])
        if self._loopback and parsed.is_loopback:
            return True
        if isinstance(parsed, ipaddress.IPv6Address):
            if parsed.ipv4_mapped is not None:
                return is_public(parsed.ipv4_mapped)
            if any(parsed in network for network in _EMBEDDING):
                return False
        return is_public(parsed)


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """True if the address is one of the public internet."""
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _left(deadline: float) -> float:
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _Received(io.RawIOBase):
    """What a connection receives until the deadline, and not too much of it."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        super().__init__()
        self._connection = connection
        self._deadline = deadline
        self._bytes = 0

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
        self._bytes += received
        if self._bytes > MAX_RECEIVED_BYTES:
            raise OSError("too large")
        return received
