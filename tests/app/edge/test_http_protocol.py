"""The HTTP connection: what is refused before it is a request, limits, and deadlines, over raw sockets."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import fields
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from app.config import Config
from app.edge import http_protocol
from app.edge.bodies import BodyMemory
from app.edge.http_protocol import MAX_HEAD_BYTES, MAX_HEADERS, MAX_PIPELINED, ConnectionLimits
from tests.app.edge.machinery import things
from tests.harness.tenants import Tenant

HOST = b"Host: test\r\n"
PING = b"GET /ping HTTP/1.1\r\n" + HOST + b"\r\n"
PATIENCE = 10.0
OPEN = 12
"""Connections that the service takes in the tests of that limit."""

Connect = Callable[[], socket.socket]


@pytest.fixture
def connect(served: str) -> Iterator[Connect]:
    """Return a function that opens a connection to the service."""
    parts = urlsplit(served)
    with ExitStack() as stack:

        def open_connection() -> socket.socket:
            address = (parts.hostname or "", parts.port or 0)
            return stack.enter_context(socket.create_connection(address, timeout=PATIENCE))

        yield open_connection


@pytest.fixture
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"head": 0.3, "body": 0.3, "stall": 0.3, "close": 0.3, "check_interval": 0.05}.items():
        monkeypatch.setattr(http_protocol.TIMEOUTS, name, seconds)


def read_all(connection: socket.socket) -> bytes:
    """Return what the server sends until it closes the connection."""
    received = b""
    while True:
        try:
            part = connection.recv(65_536)
        except ConnectionResetError:
            return received
        if not part:
            return received
        received += part


def headers_of(head: bytes) -> dict[bytes, bytes]:
    """Return the headers of an answer, in lower case."""
    return dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])


def is_answered(connection: socket.socket) -> bool:
    """Read one answer to its end, whose head and body may come separately; return whether it is a 200."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65_536) or pytest.fail(f"the connection was closed after {received!r}")
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(headers_of(head)[b"content-length"])
    while len(body) < length:
        body += connection.recv(65_536) or pytest.fail(f"the connection was closed after {body!r}")
    return head.startswith(b"HTTP/1.1 200")


def send(connection: socket.socket, data: bytes) -> bytes:
    """Send bytes, and return what the server sends until it closes the connection."""
    with suppress(BrokenPipeError, ConnectionResetError):  # the server does not wait for all of it
        connection.sendall(data)
    return read_all(connection)


def error_of(response: bytes) -> tuple[int, str]:
    """Return status and code of the only response, which ends the connection."""
    head, _, body = response.partition(b"\r\n\r\n")
    headers = headers_of(head)
    assert headers[b"connection"] == b"close"
    assert headers[b"content-type"] == b"application/json"
    error = json.loads(body)["error"]
    assert headers[b"x-request-id"].decode() == error["requestId"]
    return int(head.split()[1]), error["code"]


MALFORMED = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "an unknown method": b"FROB / HTTP/1.1\r\n" + HOST + b"\r\n",
    "a space in a header's name": b"GET /ping HTTP/1.1\r\n" + HOST + b"a b: c\r\n\r\n",
    "a request line of 70,000 bytes": b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "a request line of 65,600 bytes": b"GET /" + b"a" * 65_600 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "headers of 70,000 bytes": b"GET /ping HTTP/1.1\r\n" + HOST + (b"a: " + b"b" * 997 + b"\r\n") * 70 + b"\r\n",
    "a header of 600,000 bytes": b"GET /ping HTTP/1.1\r\n" + HOST + b"a: " + b"b" * 600_000,
    "a header's name of 600,000 bytes": b"GET /ping HTTP/1.1\r\n" + HOST + b"a" * 600_000,
    "too many headers": b"GET /ping HTTP/1.1\r\n" + HOST + b"a: b\r\n" * MAX_HEADERS + b"\r\n",
    "no host": b"GET /ping HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /ping HTTP/1.1\r\n" + HOST * 2 + b"\r\n",
    "two credentials": b"GET /ping HTTP/1.1\r\n" + HOST + b"Authorization: Bearer a\r\n" * 2 + b"\r\n",
    "another transfer coding": b"POST /ping HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "two transfer codings": b"POST /ping HTTP/1.1\r\n" + HOST + b"TE: x\r\nTransfer-Encoding: gzip\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"POST /ping HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a length beside a transfer coding": b"POST /ping HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
}


class TestMalformedRequests:
    @pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED.keys())
    def test_malformed_request_gets_the_error_envelope(self, connect: Connect, sent: bytes) -> None:
        assert error_of(send(connect(), sent)) == (400, "malformed_request")

    def test_head_of_64_kilobytes_is_accepted(self, connect: Connect) -> None:
        rest = MAX_HEAD_BYTES - len("/ping" + "host" + "test" + "connection" + "close" + "a") - 1000
        head = b"GET /ping HTTP/1.1\r\n" + HOST + b"Connection: close\r\na: " + b"b" * rest + b"\r\n\r\n"
        assert send(connect(), head).startswith(b"HTTP/1.1 200")

    def test_http_1_0_needs_no_host(self, connect: Connect) -> None:
        assert send(connect(), b"GET /ping HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")

    def test_response_before_a_malformed_request_is_sent(self, connect: Connect) -> None:
        received = send(connect(), b"GET /ping HTTP/1.1\r\n" + HOST + b"\r\nnonsense\r\n\r\n")
        assert received.startswith(b"HTTP/1.1 200")
        assert received.count(b"HTTP/1.1 ") <= 2

    def test_pipelined_requests_are_answered_in_order(self, connect: Connect) -> None:
        last = b"GET /nowhere HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n"
        received = send(connect(), (b"GET /ping HTTP/1.1\r\n" + HOST + b"\r\n") * MAX_PIPELINED + last)
        assert received.count(b"HTTP/1.1 200") == MAX_PIPELINED
        assert received.count(b"HTTP/1.1 404") == 1

    def test_large_head_after_another_request_is_refused(self, connect: Connect) -> None:
        large = b"GET /ping HTTP/1.1\r\n" + HOST + (b"a: " + b"b" * 997 + b"\r\n") * 70 + b"\r\n"
        received = send(connect(), b"GET /ping HTTP/1.1\r\n" + HOST + b"\r\n" + large)
        assert received.count(b"HTTP/1.1 200") == 1

    def test_pipelined_requests_are_limited(self, connect: Connect) -> None:
        received = send(connect(), (b"GET /ping HTTP/1.1\r\n" + HOST + b"\r\n") * 5000)
        assert received.count(b"HTTP/1.1 200") <= MAX_PIPELINED + 1

    def test_malformed_chunk_of_a_body_is_malformed(self, connect: Connect, acme: Tenant) -> None:
        head = _post_head(acme, b"Transfer-Encoding: chunked\r\n")
        assert error_of(send(connect(), head + b"zz\r\n")) == (400, "malformed_request")

    def test_endless_trailers_end_the_connection(self, connect: Connect, acme: Tenant) -> None:
        head = _post_head(acme, b"Transfer-Encoding: chunked\r\n")
        trailers = b"2\r\n{}\r\n0\r\n" + b"a: " + b"b" * 600_000
        assert error_of(send(connect(), head + trailers)) == (400, "malformed_request")

    def test_trailer_is_no_header(self, connect: Connect) -> None:
        head = b"POST /webhooks/things HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n" + HOST + b"\r\n"
        received = send(connect(), head + b"2\r\n{}\r\n0\r\nX-Event: push\r\n\r\n")
        assert received.startswith(b"HTTP/1.1 400")
        assert b"missing_parameter" in received

    def test_body_in_tiny_chunks_is_refused(self, connect: Connect, acme: Tenant) -> None:
        head = _post_head(acme, b"Transfer-Encoding: chunked\r\n")
        connection = connect()
        connection.sendall(head)
        time.sleep(0.1)  # the chunks arrive together while the head is handled
        assert send(connection, b"1\r\n \r\n" * 200_000)[9:12] in {b"400", b"413"}


class TestTimeouts:
    def test_connection_that_sends_nothing_is_closed(self, connect: Connect, short_timeouts: None) -> None:
        assert read_all(connect()) == b""

    @pytest.mark.parametrize(
        "sent", [b"G", b"GET /ping HTTP/1.1\r\nHo", b"\r\n"], ids=["one byte", "a header", "a line"]
    )
    def test_unfinished_head_is_a_timeout(self, connect: Connect, sent: bytes, short_timeouts: None) -> None:
        assert error_of(send(connect(), sent)) == (408, "request_timeout")

    def test_slow_head_is_a_timeout(self, connect: Connect, short_timeouts: None) -> None:
        connection = connect()
        for _ in range(100):
            try:
                connection.sendall(b"a")
            except OSError:
                break
            time.sleep(0.02)
        else:
            pytest.fail("the connection stayed open")

    def test_unfinished_body_is_a_timeout(self, connect: Connect, acme: Tenant, short_timeouts: None) -> None:
        head = _post_head(acme, b"Content-Length: 100\r\n")
        assert error_of(send(connect(), head + b'{"name"')) == (408, "request_timeout")

    def test_unfinished_body_after_the_response_ends_the_connection(
        self, connect: Connect, short_timeouts: None
    ) -> None:
        received = send(connect(), b"GET /ping HTTP/1.1\r\nContent-Length: 100\r\n" + HOST + b"\r\n{")
        assert received.count(b"HTTP/1.1") == 1
        assert received.startswith(b"HTTP/1.1 200")

    def test_blank_lines_do_not_keep_a_connection_open(
        self, connect: Connect, short_timeouts: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original = http_protocol.EdgeProtocol.connection_made

        def connection_made(self: Any, transport: Any) -> None:
            self.timeout_keep_alive = 0.3
            original(self, transport)

        monkeypatch.setattr(http_protocol.EdgeProtocol, "connection_made", connection_made)
        connection = connect()
        connection.sendall(b"GET /ping HTTP/1.1\r\n" + HOST + b"\r\n")
        assert is_answered(connection)
        assert send(connection, b"\r\n") == b""

    def test_response_that_is_not_read_ends_the_connection(
        self, connect: Connect, acme: Tenant, short_timeouts: None
    ) -> None:
        connection = connect()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = b"GET /ping HTTP/1.1\r\n" + HOST + b"X-Filler: " + b"a" * 30_000 + b"\r\n\r\n"
        give_up = time.monotonic() + PATIENCE
        try:
            while time.monotonic() < give_up:  # the responses fill the buffers of both ends
                connection.sendall(request)
        except ConnectionError:
            return
        pytest.fail("the connection stayed open")


class TestUnverifiedBodies:
    def test_large_unverified_bodies_are_limited_in_total(
        self, connect: Connect, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        memory = BodyMemory(2_000)
        monkeypatch.setattr("app.edge.operation.UNVERIFIED_BODIES", memory)
        monkeypatch.setattr("app.edge.bodies.FREE_UNVERIFIED_BYTES", 100)
        head = b"POST /webhooks/things HTTP/1.1\r\nContent-Length: 1999\r\nX-Event: push\r\n" + HOST + b"\r\n"
        first = connect()
        first.sendall(head + b"x" * 1500)
        give_up = time.monotonic() + PATIENCE
        while memory._free == 2_000 and time.monotonic() < give_up:
            time.sleep(0.01)
        headers = {"X-Event": "push", "X-Signature": "s"}
        refused = http.post("/webhooks/things", content=b"x" * 1500, headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
        assert http.post("/webhooks/things", content=b"x" * 100, headers=headers).status_code == 202
        first.sendall(b"x" * 499)
        assert first.recv(100).startswith(b"HTTP/1.1 202")
        assert http.post("/webhooks/things", content=b"x" * 1500, headers=headers).status_code == 202
        assert memory._free == 2_000


class TestManyConnections:
    def test_unfinished_requests_harm_no_other_request(self, connect: Connect, api: httpx.Client, acme: Tenant) -> None:
        head = _post_head(acme, b"Content-Length: 100\r\n")
        for number in range(200):
            connect().sendall((b"", b"GET /pi", head, head + b'{"name"')[number % 4])
        things.SEEN.clear()
        began = time.monotonic()
        assert api.post("/v1/things", json={"name": "a thing", "scope": {"type": "organization"}}).status_code == 201
        assert api.get("/v1/things").status_code == 200
        assert time.monotonic() - began < PATIENCE / 2


class TestConnectionLimit:
    @pytest.fixture(autouse=True)
    def few_connections(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http_protocol.LIMITS, "open", OPEN)
        monkeypatch.setattr(http_protocol.TIMEOUTS, "check_interval", 0.02)

    @pytest.fixture
    def fill(self, connect: Connect) -> Callable[[bytes], list[socket.socket]]:
        """Return a function that opens as many connections as the service takes, and sends the same on each."""

        def fill(sent: bytes) -> list[socket.socket]:
            connections = []
            for _ in range(OPEN):
                connections.append(connect())
                connections[-1].sendall(sent)
                if sent == PING:
                    assert is_answered(connections[-1])
                time.sleep(0.03)  # each begins to wait at another time
            return connections

        return fill

    def test_limit_is_that_of_the_configuration(self) -> None:
        assert {one.name: one.default for one in fields(Config)}["max_connections"] == ConnectionLimits().open

    @pytest.mark.parametrize("waiting", [PING, b"", b"GET /pi"], ids=["idle", "silent", "unfinished"])
    def test_oldest_waiting_connection_makes_room_for_a_new_one(
        self, connect: Connect, fill: Callable[[bytes], list[socket.socket]], waiting: bytes
    ) -> None:
        first, *others = fill(waiting)
        new = connect()
        new.sendall(PING)
        assert is_answered(new)
        assert read_all(first) == b"" if waiting in {PING, b""} else error_of(read_all(first))[0] == 408
        for connection in others:
            connection.sendall(PING.removeprefix(waiting) if waiting == b"GET /pi" else PING)
            assert is_answered(connection)

    def test_idle_connection_makes_room_before_an_unfinished_request(
        self, connect: Connect, fill: Callable[[bytes], list[socket.socket]]
    ) -> None:
        connections = fill(b"GET /pi")
        last = connections[-1]
        last.sendall(PING.removeprefix(b"GET /pi"))
        assert is_answered(last)
        time.sleep(0.05)
        connect()
        assert read_all(last) == b""
        connections[0].sendall(PING.removeprefix(b"GET /pi"))
        assert is_answered(connections[0])

    def test_body_that_has_been_unfinished_longest_makes_room(
        self, connect: Connect, fill: Callable[[bytes], list[socket.socket]], acme: Tenant
    ) -> None:
        first, second, *_ = fill(_post_head(acme, b"Content-Length: 100\r\n"))
        connect()
        assert error_of(read_all(first)) == (408, "request_timeout")
        second.setblocking(False)
        with pytest.raises(BlockingIOError):
            second.recv(1)

    def test_connection_is_refused_when_all_others_are_served(
        self, connect: Connect, fill: Callable[[bytes], list[socket.socket]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(http_protocol, "_DISPENSABLE", ())
        fill(PING)
        assert error_of(read_all(connect())) == (503, "too_many_connections")

    def test_attack_with_new_connections_harms_no_client(self, connect: Connect) -> None:
        client = connect()
        for number in range(10 * OPEN):
            connect().sendall((b"", b"GET /pi")[number % 2])
            if number % OPEN == 0:
                client.close()
                client = connect()
                client.sendall(PING)
                assert is_answered(client)


def _post_head(acme: Tenant, *headers: bytes) -> bytes:
    credential = f"Authorization: Bearer {acme.key()}\r\n".encode()
    content = b"Content-Type: application/json\r\n"
    return b"".join((b"POST /v1/things HTTP/1.1\r\n", HOST, credential, content, *headers, b"\r\n"))


@pytest.mark.parametrize("version", ["HTTP/2.0", "HTTP/3.0", "HTTP/1.2", "HTTP/0.9", "HTTP/2", "HTTX/1.1", "HTTP/11"])
def test_request_line_of_another_version_is_refused(connect: Connect, version: str) -> None:
    answer = send(connect(), f"GET /ping {version}\r\nHost: test\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"malformed_request" in answer
