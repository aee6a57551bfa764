"""An application without HTTP: a client whose requests reach it as uvicorn hands them over, in the same thread.

For thousands of requests about what does not depend on HTTP; a request takes two thirds of the time. The transport
(framing, limits, connections) is tested over real HTTP, see `servers`.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn
import uvloop

from app.edge.connexion_adapter import Application


@contextmanager
def in_process(application: Application) -> Iterator[httpx.Client]:
    """Start an application, yield a client of it, and stop it; the application runs while a request is made."""
    config = uvicorn.Config(application, log_config=None, lifespan="on")
    config.load()
    lifespan = config.lifespan_class(config)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        loop = runner.get_loop()
        loop.run_until_complete(lifespan.startup())
        assert not lifespan.should_exit, "the application did not start"
        with httpx.Client(base_url="http://127.0.0.1", transport=_Transport(config.loaded_app, loop)) as client:
            yield client
        loop.run_until_complete(lifespan.shutdown())


class _Transport(httpx.BaseTransport):
    """Calls an ASGI application on an event loop of this thread."""

    def __init__(self, application: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._application = application
        self._loop = loop

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Make a request and return the whole response."""
        body = [{"type": "http.request", "body": request.read()}]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return body.pop() if body else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        self._loop.run_until_complete(self._application(_scope(request), receive, send))
        start, *rest = sent
        content = b"".join(message.get("body", b"") for message in rest)
        return httpx.Response(start["status"], headers=start["headers"], content=content)


def _scope(request: httpx.Request) -> dict[str, Any]:
    """Return what uvicorn says about a request."""
    path, _, query = request.url.raw_path.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1024),
        "method": request.method,
        "root_path": "",
        "path": request.url.path,
        "raw_path": path,
        "query_string": query,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "state": {},
    }
