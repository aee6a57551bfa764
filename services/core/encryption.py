"""Encryption of secrets in the database, such as links in queued mails (AES-256-GCM), and keyed hashes.

The key is derived from `SECRET_KEY`, one per purpose (HKDF, RFC 5869). The row is authenticated as associated data: a
ciphertext opens neither under another secret, nor for another purpose, nor in another row. While `SECRET_KEY` is
replaced, readers try the new and the previous one.
"""

import hmac
import secrets
from collections.abc import Iterable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_VERSION = b"\x01"
_NONCE_BYTES = 12
_KEY_BYTES = 32


class DecryptionError(Exception):
    """The ciphertext has another secret, purpose or row, or was changed."""


def encrypt(secret: bytes, use: str, row: str, plain: bytes) -> bytes:
    """Return `plain` encrypted; only the same secret, use and row decrypt it."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return _VERSION + nonce + AESGCM(derive_key(secret, use)).encrypt(nonce, plain, row.encode())


def decrypt(secret: bytes, use: str, row: str, ciphertext: bytes) -> bytes:
    """Return the plain text. Raise DecryptionError if secret, use or row differ."""
    version, nonce, body = ciphertext[:1], ciphertext[1 : 1 + _NONCE_BYTES], ciphertext[1 + _NONCE_BYTES :]
    if version != _VERSION:
        raise DecryptionError
    try:
        return AESGCM(derive_key(secret, use)).decrypt(nonce, body, row.encode())
    except (InvalidTag, ValueError) as error:
        raise DecryptionError from error


def decrypt_with_any(accepted: Iterable[bytes], use: str, row: str, ciphertext: bytes) -> bytes:
    """Return the plain text under the first accepted secret that decrypts it. Raise DecryptionError if none does."""
    for secret in accepted:
        try:
            return decrypt(secret, use, row, ciphertext)
        except DecryptionError:
            continue
    raise DecryptionError


def keyed_hash(key: bytes, value: str) -> bytes:
    """Return the HMAC-SHA256 of a value: without the key it cannot be guessed from a list of values."""
    return hmac.digest(key, value.encode(), "sha256")


def derive_key(secret: bytes, use: str) -> bytes:
    """Return the key of a purpose, 32 bytes."""
    return HKDF(algorithm=hashes.SHA256(), length=_KEY_BYTES, salt=None, info=use.encode()).derive(secret)
