"""A server with scripted answers: those that a stateful simulator has no reason to give."""

import json
import socket
import ssl
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.harness.servers import in_thread

TOKEN_PATH = "/app/installations/7/access_tokens"


@dataclass
class Reply:
    """One scripted answer; `by_hand` takes over the connection instead."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    by_hand: Callable[[BaseHTTPRequestHandler], None] | None = None


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


def granted(seconds: float = 3600, value: str = "ghs_secret") -> Reply:
    ends = datetime.now(UTC) + timedelta(seconds=seconds)
    return Reply({"token": value, "expires_at": ends.isoformat(timespec="seconds")}, 201)


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    """Close the connection without a word."""
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


class Script:
    """What the server will answer, and what it was asked."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.connections = 0
        self._replies: dict[str, deque[Reply]] = defaultdict(deque)
        self.always: dict[str, Reply] = {"POST " + TOKEN_PATH: granted()}
        self.base = ""

    def then(self, route: str, *replies: Reply) -> None:
        self._replies[route].extend(replies)

    def next_reply(self, route: str) -> Reply:
        if self._replies[route]:
            return self._replies[route].popleft()
        return self.always.get(route, Reply({"message": "Not Found"}, 404))

    def asked(self, route: str) -> list[Seen]:
        method, path = route.split(" ")
        return [seen for seen in self.seen if seen.method == method and seen.path.split("?")[0] == path]


def _handler(script: Script) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            script.connections += 1

        def handle_any(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            raw = self.rfile.read(length)
            headers = {name.lower(): value for name, value in self.headers.items()}
            script.seen.append(Seen(self.command, self.path, headers, json.loads(raw) if raw else None))
            reply = script.next_reply(f"{self.command} {self.path.split('?')[0]}")
            if reply.by_hand is not None:
                reply.by_hand(self)
                return
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response_only(reply.status)
            for name, value in {"Content-Length": str(len(body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Stay silent."""

    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.handle_any)
    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that hangs up is what some tests are about."""


@contextmanager
def serving(script: Script, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Answer by the script on a free port; yields the base address."""
    server = _Server(("127.0.0.1", 0), _handler(script))
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with in_thread(server) as port:
        script.base = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        yield script.base
