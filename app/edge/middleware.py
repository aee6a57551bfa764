"""The outermost middleware: request id, error envelope, sending, access log."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from app.edge.access_log import AccessLog
from app.edge.compression import compress_on_loop
from app.edge.errors import ErrorMapper
from app.edge.request_context import REFUSAL, Reply, RequestContext, budget_headers
from app.edge.streaming import send_stream
from integrations.spans import REQUEST_ID, root_span
from integrations.traces import CURRENT
from schemas.calls import TRACE

_NOSNIFF = (b"x-content-type-options", b"nosniff")
_HSTS = (b"strict-transport-security", b"max-age=31536000")
_NO_STORE = (b"cache-control", b"no-store")
_WITHOUT_BODY = (204, 304)

Headers = Sequence[tuple[bytes, bytes]]


class RequestMiddleware:
    """Wraps the whole application."""

    def __init__(
        self,
        app: Callable[..., Awaitable[None]],
        *,
        errors: ErrorMapper,
        count: Callable[[RequestContext, str | None], Awaitable[None]],
        log: AccessLog,
        https: bool = False,
    ) -> None:
        """Wrap `app`; `count` counts a request that was refused with a code, if nothing else has.

        With `https` all responses make browsers use nothing else for this host.
        """
        self._app = app
        self._errors = errors
        self._count = count
        self._log = log
        self._headers = [_NOSNIFF, _HSTS] if https else [_NOSNIFF]

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Respond to one request, also if the application raises."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = RequestContext(scope, receive, send)
        scope["request_context"] = request
        CURRENT.set(request.trace)
        with root_span("request", "server", {"http.request.method": scope["method"]}) as span:
            scope[TRACE] = CURRENT.get()
            status, code = await self._serve(request)
            span.rename(request.operation_id or "request")
            span.add({"http.response.status_code": status, REQUEST_ID: request.request_id})
            if status >= 500:
                span.fail(code or str(status))
        self._log.write(request, status, code, time.perf_counter() - request.started_at)

    async def _serve(self, request: RequestContext) -> tuple[int, str | None]:
        """Answer a request; return the status, and the code of an error."""
        scope = request.scope
        inner_send = _HeaderInjectingSend(request, self._headers)
        try:
            if REFUSAL in scope:
                raise scope[REFUSAL]  # noqa: TRY301 - answered as every other error
            await self._app(scope, request.receive, inner_send)
            reply = request.reply
        except Exception as error:
            if inner_send.status is not None:
                raise
            reply = self._errors.reply(error, request)
            await self._count(request, reply.code)
        status = inner_send.status if reply is None else reply.status
        if reply is not None:
            await _send(request, reply, self._headers)
        return status or 500, reply.code if reply else None


class _HeaderInjectingSend:
    """Adds the common headers to responses that pages send themselves."""

    __slots__ = ("_headers", "_request", "status")

    def __init__(self, request: RequestContext, headers: Headers) -> None:
        self._request = request
        self._headers = headers
        self.status: int | None = None

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            request_id = (b"x-request-id", self._request.request_id.encode())
            message = {**message, "headers": [*message.get("headers", ()), request_id, *self._headers]}
        await self._request.send(message)


async def _send(request: RequestContext, reply: Reply, common: Headers) -> None:
    headers = [(b"x-request-id", request.request_id.encode()), *common, *reply.headers]
    if request.budget is not None:
        headers += budget_headers(request.budget)
    if not reply.cacheable:
        headers.append(_NO_STORE)
    body = reply.body
    if reply.status not in _WITHOUT_BODY and reply.stream is None:
        headers.append((b"content-length", b"%d" % len(body)))
        headers, body = await compress_on_loop(reply.status, headers, body, request.header(b"accept-encoding"))
    start = {"type": "http.response.start", "status": reply.status, "headers": headers}
    if reply.stream is not None:
        reply.code = await send_stream(request, start, reply.stream, reply.authorize)
        return
    await request.send(start)
    await request.send({"type": "http.response.body", "body": b"" if request.scope["method"] == "HEAD" else body})
