"""Small stand-ins for connection poolers, between our processes and PostgreSQL.

Both drop the start-up option `options`, as PgBouncer does with `ignore_startup_parameters = options`.
"""

import secrets
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from sqlalchemy import make_url

from tests.harness.concurrency import PATIENCE
from tests.harness.listeners import accepting

_NO_ENCRYPTION = {80877103, 80877104}
"""Requests for TLS and GSSAPI."""


@dataclass
class Proxy:
    """Where a proxy listens, and what it does with connections."""

    url: str
    upstream: str
    shares_sessions: bool
    connections: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: socket.socket | None = None
    _greeting: bytes = b""

    def serve(self, client: socket.socket) -> None:
        """Carry the messages of one client until it leaves."""
        self.connections += 1
        with client, suppress(OSError, EOFError):
            startup = _read_startup(client)
            if self.shares_sessions:
                self._serve_shared(client, startup)
            else:
                with self._connect() as server:
                    server.sendall(startup)
                    _carry_both_ways(client, server)

    def close(self) -> None:
        """Close the shared session."""
        if self._server is not None:
            self._server.close()

    def _connect(self) -> socket.socket:
        url = make_url(self.upstream)
        host, port = url.query.get("host", url.host or "127.0.0.1"), url.port or int(str(url.query.get("port", 5432)))
        if str(host).startswith("/"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{host}/.s.PGSQL.{port}")
            return server
        return socket.create_connection((str(host), port))

    def _serve_shared(self, client: socket.socket, startup: bytes) -> None:
        with self._lock:
            if self._server is None:
                self._server = self._connect()
                self._server.sendall(startup)
                self._greeting = b"".join(_authenticate(client, self._server))
        process = struct.pack("!Ii", secrets.randbits(31), 0)
        client.sendall(self._greeting + _message(b"K", process) + _message(b"Z", b"I"))
        while (first := _read_message(client))[0] != b"X":
            with self._lock:
                self._transact(client, self._server, first)

    @staticmethod
    def _transact(client: socket.socket, server: socket.socket, first: tuple[bytes, bytes]) -> None:
        """Give the session to the client until its transaction has ended."""
        kind, payload = first
        while True:
            server.sendall(_message(kind, payload))
            if kind in {b"S", b"Q"}:
                while (answer := _read_message(server))[0] != b"Z":
                    client.sendall(_message(*answer))
                client.sendall(_message(*answer))
                if answer[1] == b"I":
                    return
            kind, payload = _read_message(client)


def _read_startup(client: socket.socket) -> bytes:
    while True:
        (length,) = struct.unpack("!I", _read(client, 4))
        body = _read(client, length - 4)
        (code,) = struct.unpack("!I", body[:4])
        if code not in _NO_ENCRYPTION:
            break
        client.sendall(b"N")
    words = body[4:].rstrip(b"\0").split(b"\0")
    parameters = {name: value for name, value in zip(words[::2], words[1::2], strict=True) if name != b"options"}
    kept = body[:4] + b"".join(name + b"\0" + value + b"\0" for name, value in parameters.items()) + b"\0"
    return struct.pack("!I", len(kept) + 4) + kept


def _authenticate(client: socket.socket, server: socket.socket) -> Iterator[bytes]:
    """Carry the first client's authentication, and yield what every client is greeted with."""
    while True:
        kind, payload = _read_message(server)
        if kind == b"Z":
            return
        if kind == b"S" or (kind == b"R" and payload == b"\0\0\0\0"):
            yield _message(kind, payload)
        elif kind == b"R":
            client.sendall(_message(kind, payload))
            if payload[:4] != struct.pack("!I", 12):  # the last message of SASL wants no answer
                server.sendall(_message(*_read_message(client)))


def _carry_both_ways(client: socket.socket, server: socket.socket) -> None:
    def carry(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)

    answers = threading.Thread(target=carry, args=(server, client), daemon=True)
    answers.start()
    carry(client, server)
    answers.join(PATIENCE)


def _message(kind: bytes, payload: bytes) -> bytes:
    return kind + struct.pack("!I", len(payload) + 4) + payload


def _read_message(source: socket.socket) -> tuple[bytes, bytes]:
    kind = _read(source, 1)
    (length,) = struct.unpack("!I", _read(source, 4))
    return kind, _read(source, length - 4)


def _read(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = source.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


@contextmanager
def postgres_proxy(database_url: str, *, shares_sessions: bool = False) -> Iterator[Proxy]:
    """Serve a database through a proxy on a port of this machine.

    One that shares sessions pools transactions: all clients use one session, each for the length of a transaction.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    url = make_url(database_url).set(host="127.0.0.1", port=port, query={})
    proxy = Proxy(url.render_as_string(hide_password=False), database_url, shares_sessions)
    try:
        with accepting(listener, proxy.serve):
            yield proxy
    finally:
        proxy.close()
