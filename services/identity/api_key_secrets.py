"""Secrets of API keys: `svc_live_`, 32 random base62 characters, and the CRC-32 of those in 6 base62 characters.

The checksum lets secret scanners tell a real secret from a lookalike without calling us.
"""

import hashlib
import re
import secrets
import zlib

PREFIX = "svc_live_"
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SHAPE = re.compile(r"svc_live_([0-9A-Za-z]{32})([0-9A-Za-z]{6})")


def new_secret() -> str:
    """Return a new secret; it is shown once, and only its hash is stored."""
    body = "".join(secrets.choice(_ALPHABET) for _ in range(32))
    return f"{PREFIX}{body}{_checksum(body)}"


def looks_like_secret(text: str) -> bool:
    """True if `text` has the format and the checksum of a secret."""
    match = _SHAPE.fullmatch(text)
    return match is not None and _checksum(match[1]) == match[2]


def secret_hash(secret: str) -> bytes:
    """Return the stored form of a secret: its SHA-256. The secret's entropy makes a slow hash unnecessary."""
    return hashlib.sha256(secret.encode()).digest()


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    digits = ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits = _ALPHABET[digit] + digits
    return digits
