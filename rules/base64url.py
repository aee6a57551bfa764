"""Bytes as text for addresses and cookies: base64url without padding (RFC 4648, 5)."""

import base64


def encode(data: bytes) -> str:
    """Return bytes as text."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """Return the bytes of a text. Raise ValueError if it is not one of these."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
