"""Replies kept for retries: found and stored. The sweeper removes them in time (`services/maintenance/tasks.py`).

A reply that shows a secret is kept encrypted only. Its key is derived from the client's idempotency key, of which
the database holds a hash alone: whoever reads the table cannot read the reply.
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

KEPT = timedelta(hours=24)
SECRETS_KEPT = timedelta(hours=1)
_NONCE_BYTES = 12
_IDENTITY = ("organization_id", "principal_id", "key_hash")


def key_hash(key: str) -> bytes:
    """Return what is kept of a client's idempotency key: 32 bytes."""
    return hashlib.sha256(key.encode()).digest()


def try_lock(session: Session, organization_id: str, principal_id: str, hashed: bytes) -> bool:
    """Take the key for the rest of the transaction, without waiting; tell whether it was free."""
    digest = hashlib.sha256(b"\0".join((organization_id.encode(), principal_id.encode(), hashed))).digest()
    number = int.from_bytes(digest[:8], signed=True)
    return bool(session.execute(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": number}).scalar())


def find_reply(
    session: Session, organization_id: str, principal_id: str, hashed: bytes, now: datetime
) -> IdempotencyKey | None:
    """Return the finished write under this key, unless it is too old to count."""
    return session.scalars(
        select(IdempotencyKey).where(
            IdempotencyKey.organization_id == organization_id,
            IdempotencyKey.principal_id == principal_id,
            IdempotencyKey.key_hash == hashed,
            IdempotencyKey.created_at > now - KEPT,
        )
    ).one_or_none()


def store_reply(session: Session, row: IdempotencyKey) -> None:
    """Store a reply, in the place of one that has become too old."""
    columns = {column.key: getattr(row, column.key) for column in IdempotencyKey.__table__.columns}
    statement = insert(IdempotencyKey).values(columns)
    session.execute(statement.on_conflict_do_update(index_elements=_IDENTITY, set_=columns))


def body_of(row: IdempotencyKey, key: str, now: datetime) -> bytes | None:
    """Return the kept body, deciphered if it shows a secret; None once that has been kept for an hour."""
    if not row.secret:
        return row.body
    return unseal(key, row.body) if row.body and now - row.created_at < SECRETS_KEPT else None


def seal(key: str, body: bytes) -> bytes:
    """Encrypt a reply under the client's idempotency key."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(_derived(key)).encrypt(nonce, body, None)


def unseal(key: str, sealed: bytes) -> bytes | None:
    """Return what `seal` was given, or None when the key is another one."""
    try:
        return AESGCM(_derived(key)).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None)
    except InvalidTag:
        return None


def _derived(key: str) -> bytes:
    return HKDF(SHA256(), 32, salt=None, info=b"change-freeze idempotent reply").derive(key.encode())
