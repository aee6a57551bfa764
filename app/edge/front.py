"""The outermost layer: gives each request its id, turns exceptions into the envelope, sends, logs and counts."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

from app.edge.access_log import AccessLog
from app.edge.errors import ErrorMapper
from app.edge.exchange import Reply, RequestContext
from app.edge.streaming import send_stream

_NOSNIFF = (b"x-content-type-options", b"nosniff")
_NO_STORE = (b"cache-control", b"no-store")
_WITHOUT_BODY = (204, 304)


class RequestMiddleware:
    """Wraps the whole application."""

    def __init__(self, app: Callable[..., Awaitable[None]], *, errors: ErrorMapper, log: AccessLog) -> None:
        self._app = app
        self._errors = errors
        self._log = log

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one request, whatever happens inside."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = RequestContext(scope, receive, send)
        scope["exchange"] = exchange
        passed_on = _PassedOn(exchange)
        try:
            await self._app(scope, receive, passed_on)
            reply = exchange.reply
        except Exception as error:
            if passed_on.status is not None:
                raise
            reply = self._errors.reply(error, exchange)
        status = passed_on.status if reply is None else reply.status
        if reply is not None:
            await _send(exchange, reply)
        self._log.request(
            exchange, status or 500, reply.code if reply else None, time.perf_counter() - exchange.started_at
        )


class _PassedOn:
    """What pages send themselves, with the headers that every answer has."""

    __slots__ = ("_exchange", "status")

    def __init__(self, exchange: RequestContext) -> None:
        self._exchange = exchange
        self.status: int | None = None

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            request_id = (b"x-request-id", self._exchange.request_id.encode())
            message = {**message, "headers": [*message.get("headers", ()), request_id, _NOSNIFF]}
        await self._exchange.send(message)


async def _send(exchange: RequestContext, reply: Reply) -> None:
    headers = [(b"x-request-id", exchange.request_id.encode()), _NOSNIFF, *reply.headers]
    if exchange.budget is not None:
        headers.append((b"ratelimit-remaining", b"%d" % max(0, exchange.budget.remaining)))
        headers.append((b"ratelimit-reset", b"%d" % exchange.budget.reset))
    if not reply.cacheable:
        headers.append(_NO_STORE)
    if reply.status not in _WITHOUT_BODY and reply.stream is None:
        headers.append((b"content-length", b"%d" % len(reply.body)))
    start = {"type": "http.response.start", "status": reply.status, "headers": headers}
    if reply.stream is not None:
        reply.code = await send_stream(exchange, start, reply.stream)
        return
    await exchange.send(start)
    body = b"" if exchange.scope["method"] == "HEAD" else reply.body
    await exchange.send({"type": "http.response.body", "body": body})
