"""What a handler can return in place of the object that the contract describes."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class RawReply:
    """A response that is not JSON of the contract; it is sent as it is."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """The body of a long response, block by block; `aclose` releases its resources, even before its end."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return the blocks."""

    async def aclose(self) -> None:
        """Release its resources."""


@dataclass(frozen=True, slots=True)
class StreamedReply:
    """A response too long to be held in memory: its blocks are sent as they are read.

    Errors must be raised before the first block. A later failure closes the connection, so that the client does not
    take a part of the response for all of it.
    """

    headers: Mapping[str, str]
    stream: Stream


@dataclass(frozen=True, slots=True)
class SecretReply:
    """An object that contains a secret: its copy for retries is stored encrypted, and only for one hour."""

    value: Any


@dataclass(frozen=True, slots=True)
class LastingReply:
    """An object that stays as it is until an instant, unless the version of the organisation's freezes changes.

    Until then the same request is answered from memory; None: it may change at any time.
    """

    value: Any
    until: datetime | None


@dataclass(frozen=True, slots=True)
class HeadedReply:
    """An object with additional headers, such as `Retry-After` of a 202."""

    value: Any
    headers: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """A tuple for a header that is sent several times."""
