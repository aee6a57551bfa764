"""What a proxy parses of its traffic: enough to know which request is under way.

`request` is given the bytes that a client sends and returns the whole request so far; `answered` is called when the
server has answered.
"""

import struct
from typing import Protocol

KEPT = 1 << 20
STARTUPS = {80877103, 80877104}
"""PostgreSQL's questions about encryption, after which the real greeting follows."""


class Dialect(Protocol):
    """One connection's language."""

    def request(self, data: bytes) -> str:
        """Return the request that these bytes continue or end."""

    def answered(self) -> None:
        """Note that a response has started: the next bytes of the client are a new request."""


class Bytes:
    """Any protocol of question and answer (HTTP, Redis): the request is what was sent since the last answer."""

    def __init__(self) -> None:
        self._sent = b""

    def request(self, data: bytes) -> str:
        """Return everything that was sent since the last answer."""
        self._sent = (self._sent + data)[-KEPT:]
        return self._sent.decode("utf-8", "replace")

    def answered(self) -> None:
        """Forget what was read."""
        self._sent = b""


class Statements:
    """PostgreSQL: the request is the transaction so far, a statement a line, with its values."""

    def __init__(self) -> None:
        self._buffer = b""
        self._greeted = False
        self._prepared: dict[bytes, str] = {}
        self._transaction: list[str] = []

    def request(self, data: bytes) -> str:
        """Return the statements of the present transaction."""
        self._buffer += data
        while self._take():
            pass
        return "\n".join(self._transaction)

    def answered(self) -> None:
        """Keep the transaction: it has many answers."""

    def _take(self) -> bool:
        if not self._greeted:
            return self._take_greeting()
        if len(self._buffer) < 5:
            return False
        (length,) = struct.unpack_from("!i", self._buffer, 1)
        if len(self._buffer) < 1 + length:
            return False
        kind, payload = self._buffer[:1], self._buffer[5 : 1 + length]
        self._buffer = self._buffer[1 + length :]
        self._read(kind, payload)
        return True

    def _take_greeting(self) -> bool:
        if len(self._buffer) < 8:
            return False
        length, code = struct.unpack_from("!ii", self._buffer)
        if len(self._buffer) < length:
            return False
        self._buffer = self._buffer[length:]
        self._greeted = code not in STARTUPS
        return True

    def _read(self, kind: bytes, payload: bytes) -> None:
        if kind == b"Q":
            self._hear(payload.partition(b"\0")[0].decode("utf-8", "replace"))
        elif kind == b"P":
            name, _, rest = payload.partition(b"\0")
            self._prepared[name] = rest.partition(b"\0")[0].decode("utf-8", "replace")
        elif kind == b"B":
            name, _, given = payload.partition(b"\0")[2].partition(b"\0")
            self._hear(f"{self._prepared.get(name, '')} {_values(given)}")

    def _hear(self, statement: str) -> None:
        if self._transaction and self._transaction[-1].upper() in {"COMMIT", "ROLLBACK"}:
            self._transaction.clear()
        self._transaction.append(statement.strip())


def _values(given: bytes) -> str:
    """Return the values of a Bind message's end: the formats' count and formats, the values' count, and each value."""
    (formats,) = struct.unpack_from("!h", given)
    at = 2 + 2 * formats
    (count,) = struct.unpack_from("!h", given, at)
    at += 2
    values = []
    for _ in range(count):
        (length,) = struct.unpack_from("!i", given, at)
        values.append(given[at + 4 : at + 4 + max(0, length)].decode("utf-8", "replace"))
        at += 4 + max(0, length)
    return " ".join(values)
