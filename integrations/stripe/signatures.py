"""Signatures of Stripe's webhooks."""

import hmac
import re
from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256

TOLERANCE_SECONDS = 300
"""How far the time of a signature may be from ours, in either direction."""
MAX_HEADER_LENGTH = 4096
_PART = re.compile(r"\s*(t|v1)=([0-9a-f]{1,64})\s*", re.ASCII)


def sign(secret: str, raw_body: bytes, seconds: int) -> str:
    """Return the `Stripe-Signature` of these bytes at a time, in seconds since the epoch."""
    return f"t={seconds},v1={_digest(secret, raw_body, str(seconds))}"


def verify(secrets: Iterable[str], raw_body: bytes, header: str | None, now: datetime) -> bool:
    """True if a signature of `header` is one of exactly these bytes under one of the secrets, made within 300 seconds.

    Stripe sends several while a secret replaces another. Without a secret the result is always False.
    """
    if header is None or len(header) > MAX_HEADER_LENGTH:
        return False
    parts = [match.groups() for part in header.split(",") if (match := _PART.fullmatch(part))]
    stamps = [value for name, value in parts if name == "t"]
    if len(stamps) != 1 or not stamps[0].isdecimal():
        return False
    if abs(now.timestamp() - int(stamps[0])) > TOLERANCE_SECONDS:
        return False
    expected = [_digest(secret, raw_body, stamps[0]) for secret in secrets if secret]
    found = [value for name, value in parts if name == "v1"]
    return any(hmac.compare_digest(ours, theirs) for ours in expected for theirs in found)


def _digest(secret: str, raw_body: bytes, stamp: str) -> str:
    return hmac.new(secret.encode(), stamp.encode() + b"." + raw_body, sha256).hexdigest()
