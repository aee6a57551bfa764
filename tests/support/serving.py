"""Serving an application over real HTTP, in a thread of the test process."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from app.connexion_adapter import Application


@contextmanager
def serving(application: Application, listener: socket.socket | None = None) -> Iterator[str]:
    """Serve on a free port of this machine, or where somebody listens already, and yield the base URL.

    Stops gracefully, and closes the listener.
    """
    listener = listener or socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        lifespan="on",
        loop="uvloop",
        http="httptools",
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


def _wait_until_ready(server: uvicorn.Server, thread: threading.Thread) -> None:
    while not server.started:
        thread.join(timeout=0.01)
        assert thread.is_alive(), "the server did not start"
