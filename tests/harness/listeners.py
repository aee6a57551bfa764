"""Serving connections of plain sockets in threads of the test process."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.harness.concurrency import PATIENCE


@contextmanager
def accepting(listener: socket.socket, serve: Callable[[socket.socket], object]) -> Iterator[None]:
    """Serve each connection in a thread of its own while the block runs, and close the listener at its end.

    A connection that is open then goes on until its client leaves.
    """

    def accept() -> None:
        with suppress(OSError):  # from the listener, at the end
            while True:
                connection, _address = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)
        listener.close()
