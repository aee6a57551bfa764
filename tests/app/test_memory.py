"""The memory of an API process under attacks that send much and finish nothing: its peak is measured, from outside."""

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.app.test_gunicorn import Api, running
from tests.harness.concurrency import eventually

pytestmark = pytest.mark.check

MEBIBYTE = 1024 * 1024
MAX_GROWTH = 64 * MEBIBYTE
"""Bytes by which the memory of the process may grow meanwhile."""
HEADERS = 600
"""MiB of headers that one connection sends."""
BODIES = 20
BODY = 24
"""MiB of each unfinished body."""
PATIENCE = 20.0

Attack = Callable[[Callable[[], socket.socket]], None]


class Meter:
    """Measures the process that serves the requests of an API."""

    def __init__(self, api: Api) -> None:
        [self._process] = Path(f"/proc/{api.process.pid}/task/{api.process.pid}/children").read_text().split()
        self._before = self._read("VmRSS")

    def growth(self) -> int:
        """Return by how many bytes the process was larger than at the beginning, at its largest since then."""
        return self._read("VmHWM") - self._before

    def _read(self, name: str) -> int:
        [kibibytes] = re.findall(rf"{name}:\s+(\d+) kB", Path(f"/proc/{self._process}/status").read_text())
        return int(kibibytes) * 1024


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running(tmp_path_factory.mktemp("api")) as started:
        started.wait_until_listening()
        eventually(lambda: started.health() == 200, PATIENCE)
        yield started


@pytest.fixture(scope="module")
def meter(api: Api) -> Meter:
    return Meter(api)


def send(connection: socket.socket, data: bytes, times: int) -> None:
    """Send as much as the service takes."""
    with suppress(OSError):
        for _ in range(times):
            connection.sendall(data)


def send_headers(connect: Callable[[], socket.socket]) -> None:
    connection = connect()
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
    send(connection, (b"a: " + b"b" * 1019 + b"\r\n") * 1024, HEADERS)


def send_one_header(connect: Callable[[], socket.socket]) -> None:
    connection = connect()
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\na: ")
    send(connection, b"b" * MEBIBYTE, HEADERS)


def send_unfinished_deliveries(connect: Callable[[], socket.socket]) -> None:
    head = b"POST /webhooks/github HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-GitHub-Event: push\r\n"
    head += b"X-GitHub-Delivery: 1\r\nContent-Length: %d\r\n\r\n" % (25 * MEBIBYTE)
    connections = [connect() for _ in range(BODIES)]
    for connection in connections:
        connection.sendall(head)
    for _ in range(BODY):
        for connection in connections:
            send(connection, b"x" * MEBIBYTE, 1)


def send_unfinished_sign_ins(connect: Callable[[], socket.socket]) -> None:
    head = b"POST /api/auth/sign-in HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    for _ in range(200):
        connection = connect()
        connection.sendall(head + b"Content-Length: 16000\r\n\r\n")
        send(connection, b"x" * 15_000, 1)


ATTACKS = [send_headers, send_one_header, send_unfinished_deliveries, send_unfinished_sign_ins]


@pytest.mark.parametrize("attack", ATTACKS)
def test_memory_of_the_api_grows_by_64_mebibytes_at_most(api: Api, meter: Meter, attack: Attack) -> None:
    with ExitStack() as exit_stack:

        def connect() -> socket.socket:
            address = ("127.0.0.1", api.port)
            return exit_stack.enter_context(socket.create_connection(address, timeout=PATIENCE))

        attack(connect)
        assert api.health(PATIENCE) == 200
    assert meter.growth() <= MAX_GROWTH, f"{meter.growth() / MEBIBYTE:.1f} MiB"
