"""API keys: create, rotate, revoke, list. `app/edge/authentication.py` checks a key on each request.

Nothing is cached: a change takes effect in every process with its commit. The state of a key follows from its
timestamps and the current time (`ApiKey.state`). A key has one secret without an end, and during a rotation a second
one that expires after the grace period.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ScalarSelect, func, or_, select

from models.api_keys import ApiKey, ApiKeySecret, ApiKeyState
from rules.access.permissions import SYSTEM
from rules.errors import ServiceError, field_error
from rules.ids import new_id
from services.core.pagination import Page, page_of, page_of_listed
from services.core.unit_of_work import UnitOfWork
from services.identity.api_key_secrets import PREFIX, new_secret, secret_hash

MAX_AGENT_KEY_LIFETIME = timedelta(days=90)
_PREFIX_LENGTH = len(PREFIX) + 4


@dataclass(frozen=True, slots=True)
class NewKey:
    """The input for a new key. The contract has validated the scopes."""

    name: str
    scopes: list[str]
    expires_at: datetime | None
    agent: bool = False


def list_scopes(uow: UnitOfWork, vocabulary: Mapping[str, str], cursor: str | None, limit: int) -> Page:
    """Return a page of the scopes with their descriptions, in the order of the vocabulary. Raise `invalid_cursor`."""
    scopes = [{"name": name, "description": description} for name, description in vocabulary.items()]
    return page_of_listed(uow, "list_api_key_scopes", scopes, cursor, limit)


def list_keys(uow: UnitOfWork, state: ApiKeyState | None, cursor: str | None, limit: int) -> Page:
    """Return a page of the organisation's keys, newest first; `state` None means any. Raise `invalid_cursor`."""
    query = select(ApiKey, _grace_end(uow.now)).where(ApiKey.organization_id == uow.organization)
    if state is not None:
        query = query.where(ApiKey.has_state(state, uow.now))
    order = (ApiKey.created_at, ApiKey.id)
    page = page_of(uow, "list_api_keys", {"state": state}, query, order, cursor=cursor, limit=limit)
    return Page([_to_response(key, grace_ends_at, uow.now) for key, grace_ends_at in page.data], page.next_cursor)


def create(uow: UnitOfWork, wanted: NewKey) -> dict[str, Any]:
    """Create a key and return it with its secret, which is shown only once.

    Raise `invalid_parameter` if the expiry is not in the future, or if an agent's key has none within 90 days.
    """
    _check_expiry(wanted, uow.now)
    secret = new_secret()
    key = ApiKey(
        id=new_id("key"),
        organization_id=uow.organization,
        name=wanted.name,
        scopes=wanted.scopes,
        agent=wanted.agent,
        prefix=secret[:_PREFIX_LENGTH],
        created_by=uow.actor.as_json(),
        created_at=uow.now,
        expires_at=wanted.expires_at,
    )
    uow.session.add(key)
    uow.session.flush()
    _store_secret(uow, key, secret)
    after = {"scopes": key.scopes, "agent": key.agent, "expiresAt": key.expires_at, "prefix": key.prefix}
    _audit(uow, "created", key, None, after)
    return {"api_key": _to_response(key, None, uow.now), "secret": secret}


def rotate(uow: UnitOfWork, key_id: str, grace_seconds: int) -> dict[str, Any]:
    """Replace the secret of a key; the current one keeps working for the grace period, older ones stop at once.

    The grace period never exceeds the key's expiry. Raise `api_key_not_found`, or `invalid_state` if it is not active.
    """
    key = _lock_active(uow, key_id)
    grace_ends_at = uow.now + timedelta(seconds=grace_seconds)
    if key.expires_at is not None:
        grace_ends_at = min(grace_ends_at, key.expires_at)
    valid = or_(ApiKeySecret.ends_at.is_(None), ApiKeySecret.ends_at > uow.now)
    for old in uow.session.scalars(select(ApiKeySecret).where(ApiKeySecret.api_key_id == key.id, valid)):
        old.ends_at = grace_ends_at if old.ends_at is None else uow.now
    secret = new_secret()
    before, key.prefix, key.rotated_at = key.prefix, secret[:_PREFIX_LENGTH], uow.now
    _store_secret(uow, key, secret)
    _audit(uow, "rotated", key, {"prefix": before}, {"prefix": key.prefix, "graceEndsAt": grace_ends_at})
    return {"api_key": _to_response(key, grace_ends_at if grace_seconds else None, uow.now), "secret": secret}


def revoke(uow: UnitOfWork, key_id: str) -> None:
    """Revoke a key with all its secrets. Raise `api_key_not_found`, or `invalid_state` if it is not active."""
    key = _lock_active(uow, key_id)
    key.revoked_at = uow.now
    _audit(uow, "revoked", key, {"state": "active"}, {"state": "revoked"})


def _grace_end(now: datetime) -> ScalarSelect[datetime | None]:
    """Return the subquery for the end of the grace period of a key, if one runs."""
    return (
        select(func.max(ApiKeySecret.ends_at))
        .where(ApiKeySecret.api_key_id == ApiKey.id, ApiKeySecret.ends_at > now)
        .scalar_subquery()
    )


def _lock_active(uow: UnitOfWork, key_id: str) -> ApiKey:
    """Return an active key with its row locked, so that changes are serialized."""
    query = select(ApiKey).where(ApiKey.id == key_id, ApiKey.organization_id == uow.organization)
    key = uow.session.scalar(query.with_for_update())
    if key is None:
        raise ServiceError("api_key_not_found", f"API key {key_id!r} not found in this organisation.")
    uow.refresh_now()
    state = key.state(uow.now)
    if state != "active":
        raise ServiceError("invalid_state", f"The API key is {state} and can no longer be changed. Create a new key.")
    return key


def _store_secret(uow: UnitOfWork, key: ApiKey, secret: str) -> None:
    """Store the hash of a secret that has no end yet."""
    uow.session.add(
        ApiKeySecret(
            secret_hash=secret_hash(secret),
            organization_id=key.organization_id,
            api_key_id=key.id,
            created_at=uow.now,
        )
    )


def _check_expiry(wanted: NewKey, now: datetime) -> None:
    error = None
    if wanted.expires_at is not None and wanted.expires_at <= now:
        error = "must be in the future"
    elif wanted.agent and (wanted.expires_at is None or wanted.expires_at - now > MAX_AGENT_KEY_LIFETIME):
        error = f"of an agent's key must be within {MAX_AGENT_KEY_LIFETIME.days} days"
    if error is not None:
        raise field_error("/expiresAt", error)


def _audit(uow: UnitOfWork, event: str, key: ApiKey, before: dict[str, Any] | None, after: dict[str, Any]) -> None:
    uow.audit(f"api_key.{event}", ("api_key", key.id, key.name), before=before, after=after)


def _to_response(key: ApiKey, grace_ends_at: datetime | None, now: datetime) -> dict[str, Any]:
    state = key.state(now)
    return {
        "id": key.id,
        "name": key.name,
        "scopes": key.scopes,
        "agent": key.agent,
        "state": state,
        "prefix": key.prefix,
        "created_by": key.created_by or SYSTEM.as_json(),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "last_used_at": key.last_used_at,
        "rotated_at": key.rotated_at,
        "grace_ends_at": grace_ends_at if state == "active" else None,
    }
