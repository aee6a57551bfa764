"""Answers of operations that are passed on block by block."""

import asyncio
from typing import Any

import pytest

from schemas.calls import Answer, StreamedAnswer


def start(status: int = 200) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/csv")]}


def body(block: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": block, "more_body": more}


class Sender:
    """An application that sends messages, and notes how many it has sent and whether its client has gone."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.messages = messages
        self.sent = 0
        self.cancelled = False

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        assert (await receive())["body"] == b"asked"
        try:
            for message in self.messages:
                await send(message)
                self.sent += 1
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def read(sender: Sender) -> tuple[Answer | None, list[bytes]]:
    streamed = StreamedAnswer(sender, {}, b"asked")
    refusal = await streamed.open()
    blocks = [block async for block in streamed] if refusal is None else []
    await streamed.aclose()
    return refusal, blocks


def test_stream_passes_blocks_on_in_order() -> None:
    sender = Sender(start(), body(b"a", more=True), body(b"b", more=True), body(b"", more=False))
    assert asyncio.run(read(sender)) == (None, [b"a", b"b", b""])
    assert not sender.cancelled


def test_refusal_is_read_whole_instead_of_streamed() -> None:
    refusal, blocks = asyncio.run(read(Sender(start(403), body(b"no", more=True), body(b"!", more=False))))
    assert refusal is not None
    assert (refusal.status, refusal.body, blocks) == (403, b"no!", [])


def test_stream_is_sent_no_faster_than_it_is_read_and_ends_when_closed() -> None:
    sender = Sender(start(), *(body(b"x", more=True) for _ in range(100)))

    async def leave() -> int:
        streamed = StreamedAnswer(sender, {}, b"asked")
        await streamed.open()
        await anext(streamed)
        for _ in range(20):
            await asyncio.sleep(0)
        sent = sender.sent
        await streamed.aclose()
        return sent

    assert asyncio.run(leave()) <= 3
    assert sender.cancelled


def test_stream_that_breaks_off_is_noticed() -> None:
    with pytest.raises(RuntimeError, match="broken off"):
        asyncio.run(read(Sender(start(), body(b"a", more=True))))


def test_application_without_a_response_is_noticed() -> None:
    with pytest.raises(RuntimeError, match="no response"):
        asyncio.run(read(Sender()))
