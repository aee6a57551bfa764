"""Signatures of Slack's requests."""

import hmac
import re
from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256

TOLERANCE_SECONDS = 300
"""How far the time of a signature may be from ours, in either direction."""
_STAMP = re.compile(r"[0-9]{1,12}")
_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}")


def sign(secret: str, raw_body: bytes, stamp: str) -> str:
    """Return the `X-Slack-Signature` of these bytes at a time, in seconds since the epoch."""
    return "v0=" + hmac.new(secret.encode(), b"v0:" + stamp.encode() + b":" + raw_body, sha256).hexdigest()


def verify(secrets: Iterable[str], raw_body: bytes, stamp: str | None, signature: str | None, now: datetime) -> bool:
    """True if `signature` is one of exactly these bytes under one of the secrets, made within 300 seconds.

    There are two secrets while one replaces the other. Without a secret, and for headers of any other form, the result
    is always False.
    """
    if stamp is None or signature is None or not _STAMP.fullmatch(stamp) or not _SIGNATURE.fullmatch(signature):
        return False
    if abs(now.timestamp() - int(stamp)) > TOLERANCE_SECONDS:
        return False
    expected = [sign(secret, raw_body, stamp) for secret in secrets if secret]
    return any(hmac.compare_digest(each, signature) for each in expected)
