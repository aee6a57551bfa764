"""What a handler may return besides the object that its contract describes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RawReply:
    """An answer that is not JSON of the contract: sent as it is."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class SecretReply:
    """An object that shows a secret: its idempotent copy is kept encrypted, and for one hour only."""

    value: Any


@dataclass(frozen=True, slots=True)
class HeadedReply:
    """An object with headers of its own, such as `Retry-After` of a 202."""

    value: Any
    headers: Mapping[str, str] = field(default_factory=dict)
