"""Serving an application over real HTTP, in a thread of the test process, and clients of it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer
from typing import Any

import httpx
import uvicorn

from app.edge.connexion_adapter import Application
from app.edge.http_protocol import EdgeProtocol
from tests.harness.concurrency import PATIENCE
from tests.harness.socket_transport import SocketTransport


@contextmanager
def serving(application: Application, listener: socket.socket | None = None) -> Iterator[str]:
    """Serve on a free port of this machine, or on the given listener, and yield the base URL.

    Stops gracefully, and closes the listener.
    """
    listener = listener or socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        lifespan="on",
        loop="uvloop",
        http=EdgeProtocol,
        server_header=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        _wait_until_ready(server, thread)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        listener.close()
    assert not thread.is_alive(), "the server did not stop"


@contextmanager
def in_thread(server: HTTPServer) -> Iterator[int]:
    """Have a server of the standard library answer in a thread while the block runs, yield its port, and close it."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join(PATIENCE)
        server.server_close()


def client_of(base_url: str, **options: Any) -> httpx.Client:
    """Return a client of what is served on this machine, without TLS."""
    return httpx.Client(base_url=base_url, transport=SocketTransport(), **{"timeout": 30, **options})


def _wait_until_ready(server: uvicorn.Server, thread: threading.Thread) -> None:
    while not server.started:
        thread.join(timeout=0.01)
        assert thread.is_alive(), "the server did not start"
