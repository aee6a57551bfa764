"""Stored responses of idempotent requests. The sweep deletes old ones (`services/maintenance/tasks.py`).

A response that shows a secret is stored encrypted. Its key is derived from `SECRET_KEY` and from the client's
idempotency key, of which the database holds only a hash: neither the table nor the secret alone reveals the response.
"""

import hashlib
import hmac
from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from models.requests import IdempotencyKey
from services.core.encryption import DecryptionError, decrypt_with_any, encrypt

RETENTION = timedelta(hours=24)
SECRET_RETENTION = timedelta(hours=1)
_USE = "idempotent reply"
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


def body_of(row: IdempotencyKey, secrets: Iterable[bytes], key: str, now: datetime) -> bytes | None:
    """Return the stored body, decrypted if it shows a secret; None if it cannot be, or is older than an hour."""
    if not row.secret:
        return row.body
    return decrypt_body(secrets, key, row.body) if row.body and now - row.created_at < SECRET_RETENTION else None


def encrypt_body(secret: bytes, key: str, body: bytes) -> bytes:
    """Encrypt a response body under the secret of the service and the client's idempotency key."""
    return encrypt(_both(secret, key), _USE, key_hash(key).hex(), body)


def decrypt_body(secrets: Iterable[bytes], key: str, ciphertext: bytes) -> bytes | None:
    """Return the body, or None if every secret or the key is wrong."""
    try:
        return decrypt_with_any((_both(secret, key) for secret in secrets), _USE, key_hash(key).hex(), ciphertext)
    except DecryptionError:
        return None


def _both(secret: bytes, key: str) -> bytes:
    return hmac.digest(secret, key.encode(), "sha256")
