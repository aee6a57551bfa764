"""Secrets of API keys: `svc_live_`, 32 random base62 characters, and 6 of the base62 CRC-32 of those.

The checksum lets anybody, a secret scanner too, tell a leaked secret from a lookalike without asking us.
"""

import hashlib
import re
import secrets
import zlib

PREFIX = "svc_live_"
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SHAPE = re.compile(r"svc_live_([0-9A-Za-z]{32})([0-9A-Za-z]{6})")


def new_secret() -> str:
    """Return a fresh secret; it is shown once, and only its hash is kept."""
    body = "".join(secrets.choice(_ALPHABET) for _ in range(32))
    return f"{PREFIX}{body}{_checksum(body)}"


def looks_like_secret(text: str) -> bool:
    """Tell whether `text` has the shape and the checksum of a secret."""
    match = _SHAPE.fullmatch(text)
    return match is not None and _checksum(match[1]) == match[2]


def secret_hash(secret: str) -> bytes:
    """Return what is kept of a secret: its SHA-256, 32 bytes. The secret's entropy makes a slow hash pointless."""
    return hashlib.sha256(secret.encode()).digest()


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    digits = ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits = _ALPHABET[digit] + digits
    return digits
