"""Signatures of GitHub's webhooks."""

import hashlib
import hmac
import re

_FORMAT = re.compile(r"sha256=([0-9a-f]{64})")


def sign(secret: str, raw_body: bytes) -> str:
    """Return the `X-Hub-Signature-256` of these bytes."""
    return "sha256=" + hmac.new(secret.encode(), raw_body, hashlib.sha256).hexdigest()


def verify(secret: str, raw_body: bytes, header: str | None) -> bool:
    """True if `header` is the signature of exactly these bytes, compared in constant time; False if it is malformed.

    With an empty secret the result is always False: a service without a secret must not trust anything.
    """
    if not secret or header is None or _FORMAT.fullmatch(header) is None:
        return False
    return hmac.compare_digest(sign(secret, raw_body), header)
