"""`Stripe-Signature`."""

import hashlib
import hmac


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a body at a time."""
    return hmac.new(secret.encode(), b"%d.%s" % (timestamp, body), hashlib.sha256).hexdigest()


def signature_header(secrets: list[str], timestamp: int, body: bytes) -> str:
    """Return the header: a `v1` for each secret, and the `v0` of test mode, which proves nothing."""
    signed = [f"v1={signature(secret, timestamp, body)}" for secret in secrets]
    return ",".join([f"t={timestamp}", *signed, f"v0={'0' * 64}"])
