"""Stored responses of idempotent requests. The sweeper deletes old ones (`services/maintenance/tasks.py`).

A response that shows a secret is stored encrypted. Its key is derived from the client's idempotency key, of which the
database holds only a hash: reading the table does not reveal the response.
"""

import hashlib
import os
from datetime import datetime, timedelta

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from models.requests import IdempotencyKey

RETENTION = timedelta(hours=24)
SECRET_RETENTION = timedelta(hours=1)
_NONCE_BYTES = 12
_IDENTITY = ("organization_id", "principal_id", "key_hash")


def key_hash(key: str) -> bytes:
    """Return the stored form of an idempotency key: 32 bytes."""
    return hashlib.sha256(key.encode()).digest()


def try_lock(session: Session, organization_id: str, principal_id: str, hashed: bytes) -> bool:
    """Acquire an advisory lock on the key until the end of the transaction; True if it was free."""
    digest = hashlib.sha256(b"\0".join((organization_id.encode(), principal_id.encode(), hashed))).digest()
    number = int.from_bytes(digest[:8], signed=True)
    return bool(session.execute(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": number}).scalar())


def find_reply(
    session: Session, organization_id: str, principal_id: str, hashed: bytes, now: datetime
) -> IdempotencyKey | None:
    """Return the stored response of this key, or None if there is none or it is too old.

    Errors, which earlier versions stored, are ignored.
    """
    return session.scalars(
        select(IdempotencyKey).where(
            IdempotencyKey.organization_id == organization_id,
            IdempotencyKey.principal_id == principal_id,
            IdempotencyKey.key_hash == hashed,
            IdempotencyKey.status < 300,
            IdempotencyKey.created_at > now - RETENTION,
        )
    ).one_or_none()


def store_reply(session: Session, row: IdempotencyKey) -> None:
    """Store a response; it replaces one that is too old."""
    columns = {column.key: getattr(row, column.key) for column in IdempotencyKey.__table__.columns}
    statement = insert(IdempotencyKey).values(columns)
    session.execute(statement.on_conflict_do_update(index_elements=_IDENTITY, set_=columns))


def body_of(row: IdempotencyKey, key: str, now: datetime) -> bytes | None:
    """Return the stored body, decrypted if it is secret; None if it is secret and older than an hour."""
    if not row.secret:
        return row.body
    return decrypt_body(key, row.body) if row.body and now - row.created_at < SECRET_RETENTION else None


def encrypt_body(key: str, body: bytes) -> bytes:
    """Encrypt a response body under the client's idempotency key."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(_derive_key(key)).encrypt(nonce, body, None)


def decrypt_body(key: str, ciphertext: bytes) -> bytes | None:
    """Return the body, or None if the key is wrong."""
    try:
        return AESGCM(_derive_key(key)).decrypt(ciphertext[:_NONCE_BYTES], ciphertext[_NONCE_BYTES:], None)
    except InvalidTag:
        return None


def _derive_key(key: str) -> bytes:
    return HKDF(SHA256(), 32, salt=None, info=b"change-freeze idempotent reply").derive(key.encode())
