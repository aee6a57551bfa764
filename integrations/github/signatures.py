"""Whether a webhook really comes from GitHub."""

import hashlib
import hmac
import re

_SHAPE = re.compile(r"sha256=([0-9a-f]{64})")


def sign(secret: str, raw_body: bytes) -> str:
    """Return the `X-Hub-Signature-256` that belongs to these bytes."""
    return "sha256=" + hmac.new(secret.encode(), raw_body, hashlib.sha256).hexdigest()


def verify(secret: str, raw_body: bytes, header: str | None) -> bool:
    """Tell whether `header` signs exactly these bytes; compared in constant time, and False for any odd header.

    An empty secret verifies nothing: a service without a secret must refuse, not trust.
    """
    if not secret or header is None or _SHAPE.fullmatch(header) is None:
        return False
    return hmac.compare_digest(sign(secret, raw_body), header)
