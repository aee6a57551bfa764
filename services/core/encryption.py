"""Sealing: what the database keeps but must not tell, such as the links of mails that wait (AES-256-GCM).

The key is derived from `SECRET_KEY` (HKDF, RFC 5869), one for each use. What was sealed under another secret, for
another use, or for another row does not open.
"""

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_VERSION = b"\x01"
_NONCE = 12
_KEY = 32


class DecryptionError(Exception):
    """It was sealed under another secret, for another use or row, or was changed."""


def encrypt(secret: bytes, use: str, row: str, plain: bytes) -> bytes:
    """Return `plain` encrypted and authenticated; it opens only with the same secret, use and row."""
    nonce = secrets.token_bytes(_NONCE)
    return _VERSION + nonce + AESGCM(_key(secret, use)).encrypt(nonce, plain, row.encode())


def decrypt(secret: bytes, use: str, row: str, sealed: bytes) -> bytes:
    """Return what was sealed; raises CannotOpenError."""
    version, nonce, body = sealed[:1], sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
    if version != _VERSION:
        raise DecryptionError
    try:
        return AESGCM(_key(secret, use)).decrypt(nonce, body, row.encode())
    except (InvalidTag, ValueError) as error:
        raise DecryptionError from error


def _key(secret: bytes, use: str) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=_KEY, salt=None, info=use.encode()).derive(secret)
