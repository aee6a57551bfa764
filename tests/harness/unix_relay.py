"""A Unix socket that leads to a TCP port: `gh` speaks plain HTTP to one that its setting `http_unix_socket` names."""

import select
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE = 10.0


def _relay(near: socket.socket, port: int) -> None:
    """Carry bytes both ways until one side has ended."""
    with near, socket.create_connection(("127.0.0.1", port)) as far, suppress(OSError):
        other = {near: far, far: near}
        while True:
            for source in select.select([near, far], [], [])[0]:
                data = source.recv(65536)
                if not data:
                    return
                other[source].sendall(data)


@contextmanager
def unix_relay(port: int) -> Iterator[Path]:
    """Give the path of a socket that leads to a port of this machine, as long as the block runs."""
    directory = Path(tempfile.mkdtemp(prefix="relay-", dir="/tmp"))
    path = directory / "socket"
    carrying: list[threading.Thread] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, _address = listener.accept()
                thread = threading.Thread(target=_relay, args=(near, port), daemon=True)
                carrying.append(thread)
                thread.start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield path
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        for thread in (accepting, *carrying):
            thread.join(PATIENCE)
        listener.close()
        shutil.rmtree(directory)
