"""What a handler may return besides the object that its contract describes."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class RawReply:
    """An answer that is not JSON of the contract: sent as it is."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """The body of a long answer, block by block; what it holds is given back by `aclose`, read to its end or not."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return the blocks."""

    async def aclose(self) -> None:
        """Give back what it holds."""


@dataclass(frozen=True, slots=True)
class StreamedReply:
    """An answer too long to be held in memory: its blocks are sent as they come.

    Whatever can be refused has to be refused before. What fails afterwards ends the connection, so that nobody takes
    the part for the whole.
    """

    headers: Mapping[str, str]
    stream: Stream


@dataclass(frozen=True, slots=True)
class SecretReply:
    """An object that shows a secret: its idempotent copy is kept encrypted, and for one hour only."""

    value: Any


@dataclass(frozen=True, slots=True)
class HeadedReply:
    """An object with headers of its own, such as `Retry-After` of a 202."""

    value: Any
    headers: Mapping[str, str] = field(default_factory=dict)
