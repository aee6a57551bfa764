"""Sending answers that are too long to be held: block by block, as fast as the client reads.

A client that takes nothing for half a minute is cut off, whatever its connection still holds, and so is one that reads
for longer than a quarter of an hour: what the answer is read from is given back in every case. What fails after the
first byte, such as the database, ends the connection without the mark of the end (RFC 9112, 8), so that the client
notices that it has only a part.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from app.edge.downloads import LONGEST_SECONDS
from app.edge.exchange import RequestContext
from schemas.replies import Stream

logger = logging.getLogger(__name__)

STALLED_SECONDS = 30.0
"""How long a client may take nothing."""


@dataclass(slots=True)
class Patience:
    """How long a client is waited for, in seconds: for its next step, and altogether."""

    stalled: float = STALLED_SECONDS
    longest: float = LONGEST_SECONDS


PATIENCE = Patience()
"""Of this process."""


async def send_stream(exchange: RequestContext, start: Mapping[str, Any], stream: Stream) -> str | None:
    """Send `start` and every block; returns None, or for the log why it ended early."""
    async with aclosing(stream):
        await exchange.send(start)
        if exchange.scope["method"] == "HEAD":
            await exchange.send({"type": "http.response.body", "body": b""})
            return None
        gone = asyncio.create_task(_disconnected(exchange.receive))
        try:
            return await _send_blocks(exchange, stream, gone)
        finally:
            gone.cancel()


async def _send_blocks(exchange: RequestContext, stream: Stream, gone: "asyncio.Task[None]") -> str | None:
    try:
        async with asyncio.timeout(PATIENCE.longest):
            async for block in stream:
                await _send(exchange, {"type": "http.response.body", "body": block, "more_body": True})
                if gone.done():
                    return "reader_gone"
            await _send(exchange, {"type": "http.response.body", "body": b""})
    except TimeoutError:
        _cut_off(exchange)
        return "reader_too_slow"
    except Exception:
        facts = {"request_id": exchange.request_id, "operation": exchange.operation_id}
        logger.exception("an answer broke off", extra=facts)
        return "broken_off"  # the server closes what was not completed
    return None


async def _send(exchange: RequestContext, message: dict[str, Any]) -> None:
    """Hand over one message, which waits while the client has not taken enough of those before."""
    async with asyncio.timeout(PATIENCE.stalled):
        await exchange.send(message)
    await asyncio.sleep(0)  # sending waits for nothing while the client keeps up: let others have their turn


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _cut_off(exchange: RequestContext) -> None:
    """Drop the connection with all that waits in it; closing it would wait until the client has read that.

    ASGI has no word for it, so uvicorn's transport is asked; another server closes it when the answer is not completed.
    """
    transport = getattr(getattr(exchange.send, "__self__", None), "transport", None)
    if transport is not None:
        transport.abort()
