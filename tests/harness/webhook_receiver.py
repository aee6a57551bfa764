"""An https server on this machine that receives webhooks, and answers each path as a test says."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.harness.certificates import Certified
from tests.harness.concurrency import PATIENCE
from tests.harness.document_server import response
from tests.harness.listeners import accepting

TAKEN = response(b"thanks", "200 OK", Content_Type="text/plain")


@dataclass(frozen=True, slots=True)
class Received:
    """A request."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class WebhookReceiver:
    """Answers `TAKEN` unless a path has another answer; a path that hangs has none until `release` is set."""

    listener: socket.socket
    context: ssl.SSLContext
    answers: dict[str, bytes] = field(default_factory=dict)
    hanging: set[str] = field(default_factory=set)
    release: threading.Event = field(default_factory=threading.Event)
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, path: str = "/in") -> str:
        """Return the address of a path."""
        return f"https://localhost:{self.listener.getsockname()[1]}{path}"

    def received(self, path: str = "/in") -> list[Received]:
        """Return the requests for a path, in their order."""
        return [request for request in self.requests if request.path == path]

    def serve(self, plain: socket.socket) -> None:
        """Answer one connection."""
        with self._lock:
            self.connections += 1
        with suppress(OSError), plain:
            plain.settimeout(PATIENCE)
            with self.context.wrap_socket(plain, server_side=True) as connection:
                request = _read(connection)
                self.requests.append(request)
                if request.path in self.hanging:
                    self.release.wait(PATIENCE)
                connection.sendall(self.answers.get(request.path, TAKEN))


def _read(connection: ssl.SSLSocket) -> Received:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += _more(connection)
    return Received(first.split()[1], headers, body)


def _more(connection: ssl.SSLSocket) -> bytes:
    data = connection.recv(65536)
    if not data:  # a sender that is killed in the middle
        raise ConnectionResetError
    return data


@contextmanager
def webhook_receiver(tls: Certified) -> Iterator[WebhookReceiver]:
    """Serve while the block runs."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    receiver = WebhookReceiver(listener, tls.server)
    with accepting(listener, receiver.serve):
        try:
            yield receiver
        finally:
            receiver.release.set()
