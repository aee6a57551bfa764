"""Calls of operations inside the process: as any client calls them, and through the same application.

A call is a request of its own that never leaves the process. `scope[ENTRANCE]` says who sends it, which no server sets
for a request from the network. Roles, limits, idempotency and audit hold as for every client.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal
from urllib.parse import quote, urlencode

import orjson

from schemas.contract import Operation

Entrance = Literal["web", "mcp", "slack"]
"""Where a call comes from: a page (`web`), a tool of an MCP client (`mcp`), or an action of a person in Slack."""
Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]

ENTRANCE = "change_freeze.entrance"
"""The key of the entrance in the scope of a call."""
REQUEST_ID = "change_freeze.request_id"
"""The key of the id in the scope of a request that has got one; a call has that of the request that causes it."""
TRACE = "change_freeze.trace"
"""The key of the trace in the scope of a request; a call continues it."""


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
    """Return the ASGI scope of a call, with the client, request id and trace of the outer request that causes it."""
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
        ENTRANCE: entrance,
        REQUEST_ID: outer[REQUEST_ID],
        TRACE: outer.get(TRACE),
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


class StreamedAnswer:
    """The answer of an operation whose body is passed on block by block, no faster than it is taken.

    `open` comes first; all methods belong to the loop of the application.
    """

    def __init__(self, application: Application, scope: dict[str, Any], body: bytes) -> None:
        self._application, self._scope = application, scope
        self._request: list[dict[str, Any]] = [{"type": "http.request", "body": body}]
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(1)
        self._closed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._complete = False
        self.headers: Headers = ()

    async def open(self) -> Answer | None:
        """Wait for the status. Return None if the body can be read, or else the whole answer of a refusal."""
        self._task = asyncio.create_task(self._run())
        start = await self._messages.get()
        if start is None:
            raise RuntimeError("the application has sent no response")
        self.headers = start["headers"]
        if start["status"] < 400:
            return None
        body = b"".join([block async for block in self])
        return Answer(start["status"], start["headers"], body)

    def header(self, name: bytes) -> str | None:
        """Return the header of a lower-case name, or None."""
        return Answer(200, self.headers, b"").header(name)

    def __aiter__(self) -> "StreamedAnswer":
        return self

    async def __anext__(self) -> bytes:
        """Return the next block. Raise RuntimeError if the response breaks off."""
        if self._complete:
            raise StopAsyncIteration
        message = await self._messages.get()
        if message is None:
            raise RuntimeError("the response has broken off")
        self._complete = not message.get("more_body")
        return message.get("body", b"")  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """End the operation, if it goes on, and wait for that."""
        self._closed.set()
        if self._task is None:
            return
        self._task.cancel()
        while not self._messages.empty():  # so that the task need not wait for a reader
            self._messages.get_nowait()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            await self._application(self._scope, self._receive, self._messages.put)
        finally:
            await self._messages.put(None)

    async def _receive(self) -> dict[str, Any]:
        if self._request:
            return self._request.pop()
        await self._closed.wait()
        return {"type": "http.disconnect"}
