"""`Idempotency-Key` on writes: one effect per key, and the same reply to every retry (I5).

The key is bound to organisation, principal, method, path and body. A lock is tried, never waited for, so that two
identical requests at once make one effect and one 409; it is held until the transaction which also holds the effect
and the reply has ended. Kept are successes, and conflicts and invalid values told by a service (409, 422), whose
effect is rolled back unless the refusal says that it stays; not kept is what the edge refuses, nor a fault of ours.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from app.edge.errors import ErrorMapper
from app.edge.exchange import Reply, RequestContext
from models.requests import IdempotencyKey
from rules.errors import Detail, ServiceError
from services.core import stored_replies
from services.core.unit_of_work import UnitOfWork

HEADER = "Idempotency-Key"
_KEPT_REFUSALS = (409, 422)
_VISIBLE_ASCII = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True, slots=True)
class Claim:
    """A client's key, and the request that it stands for."""

    key: str
    request_hash: bytes


def read_claim(exchange: RequestContext, body: Any) -> Claim | None:
    """Return the request's claim, or None when it has no key; refuses an unreadable or repeated key.

    Two bodies are the same when they are the same JSON, whatever white space and order a client's library chose.
    """
    given = exchange.headers(HEADER.lower().encode())
    if not given:
        return None
    key = given[0].decode("latin-1").strip()
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = re.sub(r"\\(.)", r"\1", key[1:-1])
    if len(given) > 1 or not _VISIBLE_ASCII.fullmatch(key):
        message = f"{HEADER} must be 1 to 255 visible ASCII characters, given once"
        raise ServiceError("invalid_parameter", message, details=(Detail(HEADER, message, "invalid_parameter"),))
    method_and_path = f"{exchange.scope['method']} ".encode() + exchange.scope["raw_path"]
    written = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
    digest = hashlib.sha256(hashlib.sha256(method_and_path).digest() + hashlib.sha256(written).digest())
    return Claim(key, digest.digest())


def once(
    uow: UnitOfWork, claim: Claim, exchange: RequestContext, errors: ErrorMapper, perform: Callable[[], Reply]
) -> Reply:
    """Perform a write at most once under its key, inside the unit's transaction."""
    whose = (uow.caller.organization_id or "", uow.caller.principal_id or "")
    hashed = stored_replies.key_hash(claim.key)
    if not stored_replies.try_lock(uow.session, *whose, hashed):
        raise ServiceError("idempotency_key_reuse", "The same request is still in flight.", retry_after=1)
    stored = stored_replies.find_reply(uow.session, *whose, hashed, uow.now)
    if stored is not None:
        return _replay(uow, stored, claim, exchange)
    reply = _perform(uow, exchange, errors, perform)
    if reply.status < 300 or reply.status in _KEPT_REFUSALS:
        organization_id, principal_id = whose
        row = IdempotencyKey(
            organization_id=organization_id,
            principal_id=principal_id,
            key_hash=hashed,
            request_hash=claim.request_hash,
            status=reply.status,
            headers={name.decode("latin-1"): value.decode("latin-1") for name, value in reply.headers},
            body=stored_replies.seal(claim.key, reply.body) if reply.secret else reply.body,
            secret=reply.secret,
            created_at=uow.now,
        )
        stored_replies.store_reply(uow.session, row)
    return reply


def _perform(uow: UnitOfWork, exchange: RequestContext, errors: ErrorMapper, perform: Callable[[], Reply]) -> Reply:
    """Perform inside a savepoint, so that a refusal leaves nothing but its own reply, unless its effects stay."""
    try:
        with uow.session.begin_nested():
            try:
                return perform()
            except ServiceError as error:
                if not error.effects_stay:
                    raise
                return errors.reply(error, exchange)
    except ServiceError as error:
        reply = errors.reply(error, exchange)
        if reply.status not in _KEPT_REFUSALS:
            raise
        uow.wakeups.clear()
        return reply


def _replay(uow: UnitOfWork, stored: IdempotencyKey, claim: Claim, exchange: RequestContext) -> Reply:
    if stored.request_hash != claim.request_hash:
        raise ServiceError("idempotency_key_reuse", "The key was used for another request; use a new one.")
    body = stored_replies.body_of(stored, claim.key, uow.now)
    if body is None:
        raise ServiceError("idempotency_key_reuse", "The reply to this key showed a secret, and has been erased.")
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in stored.headers.items()]
    if stored.status >= 400:
        body = _with_request_id(body, exchange.request_id)
    return Reply(stored.status, [*headers, (b"idempotency-replayed", b"true")], body)


def _with_request_id(body: bytes, request_id: str) -> bytes:
    """Name the request that gets a replayed refusal, instead of the one that first did."""
    content = orjson.loads(body)
    content["error"]["requestId"] = request_id
    return orjson.dumps(content)
