"""Serving a simulated GitHub over HTTP, in a thread of this process."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import uvicorn

from tools.fake_github.application import Application
from tools.fake_github.github import FakeGitHub

PATIENCE = 10.0


class Server(uvicorn.Server):
    """A server that leaves signals to its process: uvicorn's own handling would end it before the state is saved."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


@dataclass(slots=True)
class Handle:
    """A running GitHub."""

    github: FakeGitHub
    base_url: str
    server: Server
    thread: threading.Thread

    def replace(self, github: FakeGitHub) -> None:
        """Serve another GitHub at the same address; connections that are open stay with the former one.

        A test that needs a GitHub of its own gets it without the start of a server.
        """
        self.github.sender.stop()
        github.use_base_url(self.base_url)
        self.server.config.loaded_app = Application(github)  # each connection takes it when it is opened
        self.github = github

    def stop(self, *, wait: bool = True) -> None:
        """Stop serving and sending webhooks; without `wait`, requests may still be answered for a fifth of a second."""
        self.server.should_exit = True
        self.server.force_exit = True  # calls that hang by a fault are not waited for
        if wait:
            self.thread.join(PATIENCE)
        self.github.sender.stop()


def make_server(github: FakeGitHub) -> Server:
    """Make the server of a simulated GitHub; it is given its socket when it runs."""
    config = uvicorn.Config(
        Application(github),
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


def serve(github: FakeGitHub, port: int = 0, address: str = "127.0.0.1") -> Handle:
    """Serve a simulated GitHub in a thread and return when it accepts connections."""
    listener = listen(address, port)
    base_url = f"http://{address}:{listener.getsockname()[1]}"
    github.use_base_url(base_url)
    server = make_server(github)
    thread = threading.Thread(target=server.run, args=([listener],), name="fake_github", daemon=True)
    thread.start()
    end = time.monotonic() + PATIENCE
    while not server.started:
        if time.monotonic() > end or not thread.is_alive():
            raise RuntimeError("GitHub did not start")
        time.sleep(0.005)
    return Handle(github, base_url, server, thread)
