"""Streamed responses: sent block by block, as fast as the client reads.

A client that reads nothing for 30 seconds is disconnected, and so is one that reads for more than 15 minutes, or whose
credential was revoked meanwhile. The source of the response is closed in every case. An error after the first byte,
such as a lost database connection, ends the connection without the final chunk (RFC 9112, 8), so the client detects
that the response is incomplete.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from app.edge.downloads import MAX_DURATION_SECONDS
from app.edge.request_context import RequestContext
from rules.errors import ServiceError
from schemas.replies import Stream

logger = logging.getLogger(__name__)

Authorize = Callable[[], Awaitable[object]]


@dataclass(slots=True)
class StreamTimeouts:
    """Timeouts in seconds."""

    stall: float = 30.0
    """How long a client may read nothing."""
    total: float = MAX_DURATION_SECONDS
    """For the whole response."""
    authorization: float = 2.0
    """Between two authorizations of a response, and so how long after a revocation it is still sent."""


TIMEOUTS = StreamTimeouts()
"""The timeouts of this process."""


async def send_stream(
    request: RequestContext, start: Mapping[str, Any], stream: Stream, authorize: Authorize | None
) -> str | None:
    """Send `start` and every block. Return None, or the reason for the log if the stream ended early.

    `authorize` is called every few seconds, and ends the stream by raising.
    """
    async with aclosing(stream):
        await request.send(start)
        if request.scope["method"] == "HEAD":
            await request.send({"type": "http.response.body", "body": b""})
            return None
        gone = asyncio.create_task(_disconnected(request.receive))
        try:
            return await _send_blocks(request, stream, gone, authorize)
        finally:
            gone.cancel()


async def _send_blocks(
    request: RequestContext, stream: Stream, gone: "asyncio.Task[None]", authorize: Authorize | None
) -> str | None:
    watch: asyncio.Task[str] | None = None
    try:
        async with asyncio.timeout(TIMEOUTS.total) as limit:
            if authorize is not None:
                watch = asyncio.create_task(_end_when_revoked(authorize, limit))
            async for block in stream:
                await _send(request, {"type": "http.response.body", "body": block, "more_body": True})
                if gone.done():
                    return "reader_gone"
            await _send(request, {"type": "http.response.body", "body": b""})
    except TimeoutError:
        _abort(request)
        return watch.result() if watch is not None and watch.done() else "reader_too_slow"
    except Exception:
        facts = {"request_id": request.request_id, "operation": request.operation_id}
        logger.exception("streamed response failed", extra=facts)
        return "broken_off"  # the server closes an incomplete response
    finally:
        if watch is not None:
            watch.cancel()
    return None


async def _end_when_revoked(authorize: Authorize, limit: asyncio.Timeout) -> str:
    """End the response as soon as it cannot be authorized again, and return the reason for the log.

    It ends by moving the deadline `limit` to now.
    """
    while True:
        await asyncio.sleep(TIMEOUTS.authorization)
        try:
            await authorize()
        except Exception as error:  # noqa: BLE001 - without an answer it is not authorized
            limit.reschedule(asyncio.get_running_loop().time())
            return error.code if isinstance(error, ServiceError) else "broken_off"


async def _send(request: RequestContext, message: dict[str, Any]) -> None:
    """Send one message; this waits while the client has not read enough of the earlier ones."""
    async with asyncio.timeout(TIMEOUTS.stall):
        await request.send(message)
    await asyncio.sleep(0)  # sending does not yield while the client keeps up


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _abort(request: RequestContext) -> None:
    """Drop the connection with its send buffer; closing it would wait until the client has read the buffer.

    ASGI has no message for this, so uvicorn's transport is used. Other servers close an incomplete response.
    """
    transport = getattr(getattr(request.send, "__self__", None), "transport", None)
    if transport is not None:
        transport.abort()
