"""`Idempotency-Key` on writes: one effect per key, and the same response to every retry (I5).

A key is bound to organisation, principal, method, path and body. An advisory lock is tried without waiting, so two
concurrent identical requests give one effect and one 409. The lock is held to the end of the transaction, which also
holds the effect and the response. Only successes are stored: a refused request leaves the key free, to be sent again
corrected.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from app.edge.request_context import Reply, RequestContext
from models.requests import IdempotencyKey
from rules.errors import ServiceError, field_error
from services.core import stored_replies
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import UnitOfWork

HEADER = "Idempotency-Key"
_VISIBLE_ASCII = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True, slots=True)
class IdempotencyRequest:
    """An idempotency key with the hash of its request."""

    key: str
    request_hash: bytes


def read_idempotency_key(request: RequestContext, body: Any) -> IdempotencyRequest | None:
    """Return the key of the request, or None if there is none. Raise `invalid_parameter` if it is malformed.

    Two bodies are equal if they are the same JSON value, whatever their white space and order of keys.
    """
    given = request.headers(HEADER.lower().encode())
    if not given:
        return None
    key = given[0].decode("latin-1").strip()
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = re.sub(r"\\(.)", r"\1", key[1:-1])
    if len(given) > 1 or not _VISIBLE_ASCII.fullmatch(key):
        message = f"{HEADER} must be sent once, with 1 to 255 visible ASCII characters"
        raise field_error(HEADER, message, message=message)
    method_and_path = f"{request.scope['method']} ".encode() + request.scope["raw_path"]
    serialized = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
    parts = (key.encode(), method_and_path, serialized)  # with the key, so that passwords in bodies cannot be guessed
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts))
    return IdempotencyRequest(key, digest.digest())


def perform_once(uow: UnitOfWork, key: IdempotencyRequest, perform: Callable[[], Reply]) -> Reply:
    """Perform a write at most once per key, inside the transaction of the unit of work."""
    owner = (uow.caller.organization_id or "", uow.caller.principal_id or "")
    hashed = stored_replies.key_hash(key.key)
    if not stored_replies.try_lock(uow.session, *owner, hashed):
        raise ServiceError(
            "idempotency_key_reuse", "A request with this idempotency key is still in progress.", retry_after=1
        )
    stored = stored_replies.find_reply(uow.session, *owner, hashed, uow.now)
    if stored is not None:
        return _replay(uow, stored, key)
    reply = perform()
    if reply.status < 300:
        organization_id, principal_id = owner
        row = IdempotencyKey(
            organization_id=organization_id,
            principal_id=principal_id,
            key_hash=hashed,
            request_hash=key.request_hash,
            status=reply.status,
            headers={name.decode("latin-1"): value.decode("latin-1") for name, value in reply.headers},
            body=_encrypted(uow, key, reply) if reply.secret else reply.body,
            secret=reply.secret,
            created_at=uow.now,
        )
        stored_replies.store_reply(uow.session, row)
    return reply


def _encrypted(uow: UnitOfWork, key: IdempotencyRequest, reply: Reply) -> bytes:
    return stored_replies.encrypt_body(uow.ports[SecretKey].current, key.key, reply.body)


def _replay(uow: UnitOfWork, stored: IdempotencyKey, key: IdempotencyRequest) -> Reply:
    if stored.request_hash != key.request_hash:
        raise ServiceError(
            "idempotency_key_reuse", "This idempotency key was used with a different request. Use a new key."
        )
    body = stored_replies.body_of(stored, uow.ports[SecretKey].accepted, key.key, uow.now)
    if body is None:
        raise ServiceError(
            "idempotency_key_reuse", "The stored response contained a secret and has been erased. Use a new key."
        )
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in stored.headers.items()]
    return Reply(stored.status, [*headers, (b"idempotency-replayed", b"true")], body)
