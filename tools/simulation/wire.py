"""Requests and answers as they cross the wire, lost and slow ones included."""

import asyncio
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from tools.simulation.answers import Answer
from tools.simulation.faults import Fault

PIECES = 10
"""Of a slow body."""


@dataclass(slots=True)
class Incoming:
    """A request as it came."""

    method: str
    path: str  # still percent-encoded
    query_string: str
    headers: dict[str, str]
    raw: bytes

    @property
    def query(self) -> dict[str, str]:
        """Return the parameters of the query; of equal names the last one counts."""
        return dict(parse_qsl(self.query_string, keep_blank_values=True))


def is_loopback(scope: Scope) -> bool:
    """True if a request comes from this machine."""
    client = scope.get("client")
    return client is None or ip_address(client[0]).is_loopback


async def read(scope: Scope, receive: Receive) -> Incoming:
    """Read a whole request."""
    chunks = []
    while True:
        message = await receive()
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            break
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    query_string = scope["query_string"].decode("latin-1")
    return Incoming(scope["method"], path.partition("?")[0], query_string, headers, b"".join(chunks))


async def withhold(fault: Fault, receive: Receive, send: Send) -> None:
    """Give no answer: wait until the caller leaves or the fault's time is over, then drop the connection.

    ASGI has no message that drops a connection, so the transport of the server is aborted.
    """
    if fault.kind == "timeout":
        try:
            await asyncio.wait_for(_gone(receive), fault.seconds)
        except TimeoutError:
            pass
        else:
            return
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is not None:
        transport.abort()
        await _gone(receive)


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
