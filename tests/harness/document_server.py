"""An https server on this machine for client metadata documents."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.harness.certificates import Certified
from tests.harness.concurrency import PATIENCE
from tests.harness.listeners import accepting

DOCUMENT = b'{"client_id": "x"}'


def response(body: bytes = DOCUMENT, status: str = "200 OK", **headers: str) -> bytes:
    """Return a response as it is sent."""
    given = {"Content_Type": "application/json", "Content_Length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items() if value]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


@dataclass
class DocumentServer:
    """An https server on this machine that answers every connection with the same bytes."""

    listener: socket.socket
    context: ssl.SSLContext
    answer: bytes = field(default_factory=response)
    silent: bool = False
    """True if it sends nothing after what it has sent, and stays connected."""
    requests: list[bytes] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def port(self) -> int:
        port: int = self.listener.getsockname()[1]
        return port

    @property
    def address(self) -> str:
        return f"https://localhost:{self.port}/oauth/client.json?v=1"

    def serve(self, plain: socket.socket) -> None:
        """Answer one connection."""
        with suppress(OSError), plain, self.context.wrap_socket(plain, server_side=True) as connection:
            self.requests.append(connection.recv(4096))
            connection.sendall(self.answer)
            if self.silent:
                self.done.wait(PATIENCE)


@contextmanager
def document_server(tls: Certified) -> Iterator[DocumentServer]:
    """Serve while the block runs."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = DocumentServer(listener, tls.server)
    server.context.sni_callback = lambda _, name, __: server.names.append(name)
    with accepting(listener, server.serve):
        try:
            yield server
        finally:
            server.done.set()
