"""A Unix socket that leads to a TCP port: `gh` speaks plain HTTP to one that its setting `http_unix_socket` names."""

import select
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from tests.harness.listeners import accepting


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
    """Yield the path of a socket that leads to a port of this machine while the block runs."""
    directory = Path(tempfile.mkdtemp(prefix="relay-", dir="/tmp"))
    path = directory / "socket"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    try:
        with accepting(listener, partial(_relay, port=port)):
            yield path
    finally:
        shutil.rmtree(directory)
