"""The HTTP server of metrics, on an address of its own; that of a worker also answers probes.

Anything that reaches it may read it, so it belongs into the operators' network; it reads nothing of a request but the
path. The worker processes of one gunicorn inherit one socket: whichever accepts a connection answers for all of them.
"""

import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST

from app.config import ConfigurationError

PATH = "/metrics"
LIVENESS, READINESS = "/healthz", "/readyz"
CLIENT_TIMEOUT_SECONDS = 5.0
"""For how long a client may send or take nothing."""


def listen(address: tuple[str, int]) -> socket.socket:
    """Return a socket that listens there. Raise ConfigurationError if that is not possible."""
    host, port = address
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server(address, family=family, backlog=16)
    except OSError as error:
        raise ConfigurationError(f"METRICS_BIND {host}:{port} cannot be used: {error.strerror or error}") from error
    listener.setblocking(False)  # another process may have accepted what woke this one
    return listener


def serve(listener: socket.socket, render: Callable[[], bytes], is_ready: Callable[[], bool] | None = None) -> Thread:
    """Serve what `render` returns to all who connect to the socket, on a thread that ends with the process.

    With `is_ready`, answer probes too.
    """
    server = _Server(listener, render, is_ready)
    thread = Thread(target=server.serve_forever, args=(3600.0,), name="metrics", daemon=True)
    thread.start()
    return thread


class _Server(ThreadingMixIn, HTTPServer):
    daemon_threads = True

    def __init__(
        self, listener: socket.socket, render: Callable[[], bytes], is_ready: Callable[[], bool] | None
    ) -> None:
        super().__init__(listener.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.render, self.is_ready = render, is_ready

    def handle_error(self, *_: Any) -> None:
        """Ignore a client that has gone."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = CLIENT_TIMEOUT_SECONDS

    def do_GET(self) -> None:
        """Answer with the metrics, or a probe: 200 or 503, as those of the API."""
        path, is_ready = self.path.partition("?")[0], self.server.is_ready
        if path == PATH:
            self._answer(200, CONTENT_TYPE_LATEST, self.server.render())
        elif is_ready is not None and path in {LIVENESS, READINESS}:
            is_well = path == LIVENESS or is_ready()
            self._answer(200 if is_well else 503, "text/plain", b"ok\n" if is_well else b"waiting for the database\n")
        else:
            self.send_error(404)

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        """Name no version of the server."""
        return "change-freeze"

    def log_message(self, *_: Any) -> None:
        """Log nothing: a scrape comes every few seconds."""
