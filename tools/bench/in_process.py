"""An ASGI application called in this process, one request after the other, for measuring CPU without a network."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Application = Callable[[Json, Any, Any], Awaitable[None]]
MeasuredRequest = Callable[[], Awaitable[Any]]
"""Sends one request, and returns when it is answered."""
WARM_UP_REQUESTS = 100
BATCH = 20
"""Requests between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of one request: of this process's CPU, and of wall-clock time."""

    cpu: float
    wall: float


def make_scope(method: str, path: str, headers: Mapping[str, str]) -> Json:
    """Return an ASGI scope as uvicorn makes it; `path` may have a query."""
    path, _, query = path.partition("?")
    sent = {"host": "127.0.0.1:8080", "user-agent": "bench", **headers}
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8080),
        "state": {},
    }


def make_request(
    application: Application, method: str, path: str, headers: Mapping[str, str], body: bytes = b"", status: int = 200
) -> MeasuredRequest:
    """Return a request to the application, which fails unless it is answered with this status."""

    async def receive() -> Json:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Json) -> None:
        assert message.get("status", status) == status, message

    scope = make_scope(method, path, headers)

    async def request() -> None:
        await application({**scope, "headers": list(scope["headers"]), "state": {}}, receive, send)

    return request


async def measure(request: MeasuredRequest, seconds: float) -> Cost:
    """Send a request again and again for so long, after a warm-up; return its mean cost."""
    for _ in range(WARM_UP_REQUESTS):
        await request()
    count, cpu, wall = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() < wall + seconds:
        for _ in range(BATCH):
            await request()
        count += BATCH
    return Cost((time.process_time() - cpu) / count * 1e6, (time.perf_counter() - wall) / count * 1e6)


class Lifespan:
    """Runs an application's lifespan around a block, as a server does (ASGI lifespan protocol, 2.0)."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._incoming: asyncio.Queue[Json] = asyncio.Queue()
        self._sent: asyncio.Queue[Json] = asyncio.Queue()
        self._running: asyncio.Future[None] | None = None

    async def __aenter__(self) -> None:
        """Start it."""
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": {}}
        self._running = asyncio.ensure_future(self._application(scope, self._incoming.get, self._sent.put))
        await self._send("startup")

    async def __aexit__(self, *_: object) -> None:
        """End it."""
        await self._send("shutdown")
        assert self._running is not None
        await self._running

    async def _send(self, event: str) -> None:
        await self._incoming.put({"type": f"lifespan.{event}"})
        answer = await self._sent.get()
        assert answer["type"] == f"lifespan.{event}.complete", answer
