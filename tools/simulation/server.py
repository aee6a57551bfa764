"""Serving a simulation over HTTP, in this thread or in another one of this process."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp

TIMEOUT = 10.0
"""Seconds in which a server starts, and in which it stops."""


class Server(uvicorn.Server):
    """A server that leaves signals to its process: uvicorn's own handling would end it before the state is saved."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing during the block."""
        yield


@dataclass(slots=True)
class ServerThread:
    """A server that runs in a thread."""

    server: Server
    thread: threading.Thread

    def replace(self, application: ASGIApp) -> None:
        """Serve another application to connections that are opened from now on."""
        self.server.config.loaded_app = application

    def stop(self, *, wait: bool = True) -> None:
        """Stop serving; without `wait`, requests may still be answered for a fifth of a second."""
        self.server.should_exit = True
        self.server.force_exit = True  # calls that hang by a fault are not waited for
        if wait:
            self.thread.join(TIMEOUT)


def make_server(application: ASGIApp) -> Server:
    """Make the server of an application; it is given its socket when it runs."""
    config = uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=75,
    )
    return Server(config)


def listen(address: str, port: int) -> socket.socket:
    """Open the listening socket; port 0 takes a free one."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(1024)
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the base URL of what listens on a socket."""
    address, port = listener.getsockname()
    return f"http://{address}:{port}"


def serve_in_thread(application: ASGIApp, listener: socket.socket, name: str) -> ServerThread:
    """Serve an application in a thread and return when it accepts connections."""
    server = make_server(application)
    thread = threading.Thread(target=server.run, args=([listener],), name=name, daemon=True)
    thread.start()
    end = time.monotonic() + TIMEOUT
    while not server.started:
        if time.monotonic() > end or not thread.is_alive():
            raise RuntimeError(f"{name} did not start")
        time.sleep(0.005)
    return ServerThread(server, thread)
