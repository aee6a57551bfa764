"""Serves a WSGI application by ASGI. Its threads wait for no client.

The body is read on the event loop, before a thread is taken; the response is sent there too, after the thread is free.
A file, and an answer of an operation that is passed on, are sent block by block, as fast as the client reads.
"""

import asyncio
import contextvars
import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from werkzeug.wsgi import FileWrapper

from app.edge.bodies import UNVERIFIED_BODIES, content_of, read_bytes
from app.edge.compression import coding_for, compress, compress_file, is_compressible
from app.edge.request_context import Reply, RequestContext
from schemas.calls import StreamedAnswer

_WITHOUT_BODY = ("GET", "HEAD", "OPTIONS", "TRACE")
_FILE_BLOCK_BYTES = 65_536

WsgiApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class _Response:
    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes | FileWrapper | StreamedAnswer


class WsgiAdapter:
    """An ASGI application that runs a WSGI application in threads."""

    def __init__(
        self, application: WsgiApplication, *, threads: int, max_body: int, max_body_of: Callable[[str], int]
    ) -> None:
        """Serve with so many threads; bodies have up to `max_body` bytes, or `max_body_of` their path if it is more."""
        self._application = application
        self._max_body_of = max_body_of
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="page")
        self._max_body = max_body

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:  # noqa: ARG002 - ASGI's signature
        """Serve one request."""
        request: RequestContext = scope["request_context"]
        try:
            body = await self._read(request, scope["method"], scope["path"])
            await self._answer(scope, body, send)
        finally:
            if request.unverified_bytes:
                UNVERIFIED_BODIES.release(request.unverified_bytes)
                request.unverified_bytes = 0

    async def _answer(self, scope: dict[str, Any], body: bytes, send: Any) -> None:
        environ = _environ(scope, body)
        run = contextvars.copy_context().run
        response = await asyncio.get_running_loop().run_in_executor(self._executor, run, self._respond, environ)
        if isinstance(response.body, StreamedAnswer):
            scope["request_context"].reply = Reply(response.status, list(response.headers), stream=response.body)
            return
        await send({"type": "http.response.start", "status": response.status, "headers": response.headers})
        if isinstance(response.body, bytes):
            await send({"type": "http.response.body", "body": response.body})
            return
        try:
            for block in response.body:
                await send({"type": "http.response.body", "body": block, "more_body": True})
        finally:
            response.body.close()
        await send({"type": "http.response.body", "body": b""})

    async def _read(self, request: RequestContext, method: str, path: str) -> bytes:
        """Return the body; of one that is too large, enough for the application to see that.

        At a path with a larger limit, raise `payload_too_large` instead, and `rate_limited` where memory is short.
        """
        limit = self._max_body_of(path)
        if limit > self._max_body and method not in _WITHOUT_BODY:
            return await read_bytes(request, limit, UNVERIFIED_BODIES)
        body = b""
        is_last = method in _WITHOUT_BODY
        while not is_last and len(body) <= self._max_body:
            message = await request.receive()
            body += content_of(message, request)
            is_last = not message.get("more_body")
        return body

    def _respond(self, environ: dict[str, Any]) -> _Response:
        """Return the response of the application, in a thread."""
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start_response(status: str, headers: list[tuple[str, str]], _: object = None) -> None:
            started[:] = [(status, headers)]

        blocks = self._application(environ, start_response)
        body: bytes | FileWrapper | StreamedAnswer
        if isinstance(blocks, StreamedAnswer):
            body = blocks
        elif isinstance(blocks, FileWrapper):
            blocks.buffer_size = _FILE_BLOCK_BYTES
            body = blocks
        else:
            try:
                body = b"".join(blocks)
            finally:
                getattr(blocks, "close", _nothing)()
        status, headers = started[0]
        encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return _compressed(_Response(int(status.split(" ", 1)[0]), encoded, body), environ)


def _compressed(response: _Response, environ: Mapping[str, Any]) -> _Response:
    """Return a response as its client accepts it; a file of ours, which has a tag, is compressed once."""
    accepted = environ.get("HTTP_ACCEPT_ENCODING", "").encode("latin-1")
    headers = list(response.headers)
    if isinstance(response.body, bytes):
        return _Response(response.status, *compress(response.status, headers, response.body, accepted))
    given = dict(headers)
    tag, size = given.get(b"etag", b""), int(given.get(b"content-length", b"0"))
    if not isinstance(response.body, FileWrapper) or not tag or not is_compressible(response.status, headers, size):
        return response
    headers.append((b"vary", b"accept-encoding"))
    coding = coding_for(accepted)
    if not coding:
        return _Response(response.status, headers, response.body)
    body = b"".join(response.body)
    response.body.close()
    packed = compress_file(tag, coding, body)
    headers = [(name, b"%d" % len(packed) if name == b"content-length" else value) for name, value in headers]
    return _Response(response.status, [*headers, (b"content-encoding", coding.encode())], packed)


def _environ(scope: Mapping[str, Any], body: bytes) -> dict[str, Any]:
    """Return the environment of a request (PEP 3333)."""
    host, port = scope.get("server") or ("localhost", 80)
    client = scope.get("client") or ("", 0)
    environ: dict[str, Any] = {
        "asgi.scope": scope,
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode().decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port or 0),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": client[0],
        "REMOTE_PORT": str(client[1]),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    values: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        if b"_" not in name:  # it could not be distinguished from a header with a hyphen
            values.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
    for name, lines in values.items():
        environ["HTTP_" + name.upper().replace("-", "_")] = ("; " if name == "cookie" else ",").join(lines)
    environ.pop("HTTP_CONTENT_LENGTH", None)
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    if "HTTP_CONTENT_TYPE" in environ:
        environ["CONTENT_TYPE"] = environ.pop("HTTP_CONTENT_TYPE")
    if body:
        environ["CONTENT_LENGTH"] = str(len(body))
    return environ


def _nothing() -> None:
    pass
