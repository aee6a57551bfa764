"""Calls of operations inside the process: as any client calls them, and through the same application.

A call is a request of its own that never leaves the process. `scope["change_freeze.entrance"]` says who sends it, which
no server sets for a request from the network. Roles, limits, idempotency and audit hold as for every client.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal
from urllib.parse import quote, urlencode

import orjson

from schemas.contract import Operation

Entrance = Literal["web", "mcp"]
"""Where a call comes from: a page (`web`), or a tool of an MCP client (`mcp`)."""
Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Answer:
    """The response of an operation."""

    status: int
    headers: Headers
    body: bytes

    @cached_property
    def content(self) -> Any:
        """The JSON of the body, or None."""
        return orjson.loads(self.body) if self.body else None

    def header(self, name: bytes) -> str | None:
        """Return the header of a lower-case name, or None."""
        return next(iter(self.headers_named(name)), None)

    def headers_named(self, name: bytes) -> list[str]:
        """Return all headers of a lower-case name."""
        return [value.decode("latin-1") for key, value in self.headers if key.lower() == name]


def call_scope(
    entrance: Entrance,
    outer: Mapping[str, Any],
    operation: Operation,
    headers: Headers,
    *,
    path_params: Mapping[str, str],
    query: Mapping[str, str | int | Sequence[str | int]],
) -> dict[str, Any]:
    """Return the ASGI scope of a call, with the client and the request id of the outer request that causes it."""
    path = operation.path
    for name, value in path_params.items():
        path = path.replace("{" + name + "}", quote(value, safe="", errors="surrogatepass"))
    return {
        "type": "http",
        "asgi": outer["asgi"],
        "http_version": "1.1",
        "scheme": outer.get("scheme", "http"),
        "method": operation.method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": urlencode(query, doseq=True, errors="surrogatepass").encode(),
        "headers": headers,
        "client": outer.get("client"),
        "server": outer.get("server"),
        "change_freeze.entrance": entrance,
        "change_freeze.request_id": outer["change_freeze.request_id"],
    }


async def call_application(application: Application, scope: dict[str, Any], body: bytes) -> Answer:
    """Return the answer of the application to one request; it is not streamed."""
    messages = iter([{"type": "http.request", "body": body}])
    start: dict[str, Any] = {}
    chunks: list[bytes] = []

    async def receive() -> dict[str, Any]:
        for message in messages:
            return message
        return await asyncio.Future()  # the caller stays until it has its answer

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        else:
            chunks.append(message.get("body", b""))

    await application(scope, receive, send)
    return Answer(start["status"], start["headers"], b"".join(chunks))
