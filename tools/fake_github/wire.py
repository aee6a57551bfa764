"""Requests and answers as they cross the wire, lost and slow ones included."""

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import orjson
from starlette.types import Receive, Scope, Send

from tools.fake_github.answers import Answer
from tools.fake_github.faults import Fault
from tools.fake_github.model.refusals import Refusal

PIECES = 10
FAULT_MESSAGES = {
    401: "Bad credentials",
    403: "Resource not accessible by integration",
    404: "Not Found",
}


@dataclass(slots=True)
class Incoming:
    """A request as it came."""

    method: str
    path: str  # still percent-encoded
    query: dict[str, str]
    headers: dict[str, str]
    raw: bytes

    def json(self) -> Any:
        """Return the parsed body; an empty one is an empty object."""
        if not self.raw.strip():
            return {}
        try:
            return orjson.loads(self.raw)
        except orjson.JSONDecodeError as error:
            raise Refusal(400, "Problems parsing JSON") from error


async def read(scope: Scope, receive: Receive) -> Incoming:
    """Read a request whole."""
    chunks = []
    while True:
        message = await receive()
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            break
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    return Incoming(scope["method"], path.partition("?")[0], query, headers, b"".join(chunks))


def fault_answer(fault: Fault) -> Answer:
    """Return the answer that a fault gives."""
    status = 401 if fault.kind == "revoked" else fault.status
    message = fault.message or FAULT_MESSAGES.get(status, "Server Error")
    body = {"message": message, "documentation_url": "https://docs.github.com/rest", "status": str(status)}
    return Answer(status, body, dict(fault.headers))


async def withhold(fault: Fault, receive: Receive, send: Send) -> int:
    """Give no answer: hang until the caller leaves or the fault's time is over, then drop the connection.

    ASGI has no word for dropping a connection, so the server's own transport is cut.
    """
    if fault.kind == "timeout":
        try:
            await asyncio.wait_for(_gone(receive), fault.seconds)
        except TimeoutError:
            pass
        else:
            return 0
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is not None:
        transport.abort()
        await _gone(receive)
    return 0


async def _gone(receive: Receive) -> None:
    """Wait until the caller has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def reply(send: Send, answer: Answer, headers: dict[str, str], slow: float = 0.0) -> None:
    """Send an answer, its body over `slow` seconds."""
    body = answer.encoded()
    everything = {"content-type": "application/json; charset=utf-8", **headers, **answer.headers}
    if answer.status != 204:
        everything["content-length"] = str(len(body))
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in everything.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    if slow:
        size = max(1, -(-len(body) // PIECES))
        for start in range(0, len(body), size):
            await asyncio.sleep(slow / PIECES)
            await send({"type": "http.response.body", "body": body[start : start + size], "more_body": True})
        body = b""
    await send({"type": "http.response.body", "body": body})
