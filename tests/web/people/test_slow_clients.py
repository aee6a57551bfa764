"""Clients that send their form slowly, or do not read their page: they take no thread from anybody."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from tests.harness.servers import client_of
from web.forms import MAX_FORM_BYTES
from web.reference import RENDERER

CONNECTIONS = 200
UNREAD_PAGES = 50
"""Of each kind: four times as many as there are threads for pages."""
PATIENCE = 10.0

Connect = Callable[[], socket.socket]


@pytest.fixture
def connect(site: str) -> Iterator[Connect]:
    """Return a function that opens a connection with a small receive buffer."""
    parts = urlsplit(site)
    with ExitStack() as stack:

        def open_connection() -> socket.socket:
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(PATIENCE)
            connection.connect((parts.hostname or "", parts.port or 0))
            return connection

        yield open_connection


def assert_pages_are_served(site: str) -> None:
    with client_of(site, timeout=PATIENCE) as http:
        began = time.monotonic()
        assert http.get("/sign-in").status_code == 200
        assert http.get("/docs/errors").status_code == 200
        assert http.get("/static/app.css").status_code == 200
        assert time.monotonic() - began < PATIENCE


@pytest.mark.parametrize("body", [b"", b"email=eve", b"a" * 10_000], ids=["none", "a part", "nearly all"])
def test_unfinished_forms_silence_no_page(site: str, connect: Connect, body: bytes) -> None:
    head = f"POST /sign-in HTTP/1.1\r\nHost: test\r\nOrigin: {site}\r\nContent-Length: 10001\r\n"
    head += "Content-Type: application/x-www-form-urlencoded\r\n\r\n"
    for _ in range(CONNECTIONS):
        connect().sendall(head.encode() + body)
    assert_pages_are_served(site)


@pytest.mark.parametrize("path", ["/docs", f"/static/{RENDERER}"], ids=["a page", "a file"])
def test_unread_pages_silence_no_page(site: str, connect: Connect, path: str) -> None:
    for _ in range(UNREAD_PAGES):
        connect().sendall(f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
    assert_pages_are_served(site)


def test_form_that_arrives_in_parts_is_read(site: str, connect: Connect) -> None:
    connection = connect()
    head = b"POST /sign-in HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n"
    connection.sendall(
        head + f"Origin: {site}\r\n".encode() + b"Content-Type: application/x-www-form-urlencoded\r\n\r\n"
    )
    for part in (b"email=eve", b"&password=", b"none"):
        connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
    connection.sendall(b"0\r\n\r\n")
    assert connection.recv(1000).startswith(b"HTTP/1.1 403"), "the form lacks its token"


def test_form_that_is_too_large_is_refused_with_a_page(site: str) -> None:
    with client_of(site) as http:
        answer = http.post("/forgot", data={"email": "a" * MAX_FORM_BYTES}, headers={"Origin": site})
    assert answer.status_code == 413
    assert "<h1>" in answer.text


def test_file_is_sent_whole(site: str) -> None:
    with client_of(site) as http:
        whole = http.get(f"/static/{RENDERER}", headers={"Accept-Encoding": "identity"})
        assert whole.status_code == 200
        assert len(whole.content) == int(whole.headers["Content-Length"]) > 500_000
        part = http.get(f"/static/{RENDERER}", headers={"Range": "bytes=10-19"})
        assert (part.status_code, part.content) == (206, whole.content[10:20])
        assert http.head(f"/static/{RENDERER}").content == b""
        assert http.get(f"/static/{RENDERER}", headers={"If-None-Match": whole.headers["ETag"]}).status_code == 304
