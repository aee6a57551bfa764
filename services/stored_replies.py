"""Replies kept for retries: found, stored, and forgotten in time.

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
from sqlalchemy import CursorResult, delete, select, text, update
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


def forget_replies(session: Session, now: datetime) -> int:
    """Erase secrets after an hour and rows after a day; the sweeper's chore. Returns how many rows changed."""
    erased: CursorResult[object] = session.execute(  # type: ignore[assignment]
        update(IdempotencyKey)
        .where(IdempotencyKey.secret, IdempotencyKey.body.is_not(None), IdempotencyKey.created_at <= now - SECRETS_KEPT)
        .values(body=None)
    )
    removed: CursorResult[object] = session.execute(  # type: ignore[assignment]
        delete(IdempotencyKey).where(IdempotencyKey.created_at <= now - KEPT)
    )
    return erased.rowcount + removed.rowcount
