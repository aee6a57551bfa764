"""API keys: create, rotate, revoke and list them. `app/edge/auth.py` checks a key on each request.

Nothing here is cached anywhere: a change acts in every process from its commit on. The state of a key follows from its
instants (`ApiKey.state`). A key has one secret without an end, and while it is being rotated one more that ends with
the grace.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ScalarSelect, func, or_, select

from models.api_keys import ApiKey, ApiKeySecret, ApiKeyState
from rules.access.permissions import SYSTEM
from rules.errors import Detail, ServiceError
from rules.ids import new_id
from services.core.pagination import Page, page_of, page_of_listed
from services.core.unit_of_work import UnitOfWork
from services.identity.api_key_secrets import PREFIX, new_secret, secret_hash

LONGEST_OF_AGENTS = timedelta(days=90)
"""How long the key of an agent is good at most."""
_SHOWN = len(PREFIX) + 4


@dataclass(frozen=True, slots=True)
class NewKey:
    """What a person asks for. The contract has checked the scopes against its vocabulary."""

    name: str
    scopes: list[str]
    expires_at: datetime | None
    agent: bool = False


def list_scopes(uow: UnitOfWork, vocabulary: Mapping[str, str], cursor: str | None, limit: int) -> Page:
    """Return a page of the vocabulary, scope → what it lets a key do, in its own order; raises `invalid_cursor`."""
    scopes = [{"name": name, "description": description} for name, description in vocabulary.items()]
    return page_of_listed(uow, "list_api_key_scopes", scopes, cursor, limit)


def list_keys(uow: UnitOfWork, state: ApiKeyState | None, cursor: str | None, limit: int) -> Page:
    """Return a page of the organisation's keys, the newest first; None: of any state. Raises `invalid_cursor`."""
    query = select(ApiKey, _grace_end(uow.now)).where(ApiKey.organization_id == uow.organization)
    if state is not None:
        query = query.where(ApiKey.has_state(state, uow.now))
    keys = (ApiKey.created_at, ApiKey.id)
    page = page_of(uow, "list_api_keys", {"state": state}, query, keys, cursor=cursor, limit=limit)
    return Page([_view(key, grace_ends_at, uow.now) for key, grace_ends_at in page.data], page.next_cursor)


def create(uow: UnitOfWork, wanted: NewKey) -> dict[str, Any]:
    """Make a key, and return it with its secret, which is shown this once.

    Raises `invalid_parameter` for an expiry that is not in the future, or too far away (or missing) for an agent.
    """
    _require_expiry(wanted, uow.now)
    secret = new_secret()
    key = ApiKey(
        id=new_id("key"),
        organization_id=uow.organization,
        name=wanted.name,
        scopes=wanted.scopes,
        agent=wanted.agent,
        prefix=secret[:_SHOWN],
        created_by=uow.actor.as_json(),
        created_at=uow.now,
        expires_at=wanted.expires_at,
    )
    uow.session.add(key)
    uow.session.flush()
    _keep(uow, key, secret)
    told = {"scopes": key.scopes, "agent": key.agent, "expiresAt": key.expires_at, "prefix": key.prefix}
    _audit(uow, "created", key, None, told)
    return {"api_key": _view(key, None, uow.now), "secret": secret}


def rotate(uow: UnitOfWork, key_id: str, grace_seconds: int) -> dict[str, Any]:
    """Give a key another secret and return them; the present one goes on for the grace, and no older one any more.

    The grace never passes the key's expiry. Raises `api_key_not_found`, `invalid_state` for one that is not active.
    """
    key = _active(uow, key_id)
    grace_ends_at = uow.now + timedelta(seconds=grace_seconds)
    if key.expires_at is not None:
        grace_ends_at = min(grace_ends_at, key.expires_at)
    working = or_(ApiKeySecret.ends_at.is_(None), ApiKeySecret.ends_at > uow.now)
    for old in uow.session.scalars(select(ApiKeySecret).where(ApiKeySecret.api_key_id == key.id, working)):
        old.ends_at = grace_ends_at if old.ends_at is None else uow.now
    secret = new_secret()
    before, key.prefix, key.rotated_at = key.prefix, secret[:_SHOWN], uow.now
    _keep(uow, key, secret)
    _audit(uow, "rotated", key, {"prefix": before}, {"prefix": key.prefix, "graceEndsAt": grace_ends_at})
    return {"api_key": _view(key, grace_ends_at if grace_seconds else None, uow.now), "secret": secret}


def revoke(uow: UnitOfWork, key_id: str) -> None:
    """End a key with all its secrets; raises `api_key_not_found`, `invalid_state` for one that is not active."""
    key = _active(uow, key_id)
    key.revoked_at = uow.now
    _audit(uow, "revoked", key, {"state": "active"}, {"state": "revoked"})


def _grace_end(now: datetime) -> ScalarSelect[datetime | None]:
    """Return the query for the end of a key's replaced secret, while that still works."""
    return (
        select(func.max(ApiKeySecret.ends_at))
        .where(ApiKeySecret.api_key_id == ApiKey.id, ApiKeySecret.ends_at > now)
        .scalar_subquery()
    )


def _active(uow: UnitOfWork, key_id: str) -> ApiKey:
    """Lock a key that is active, so that its changes come one after the other."""
    query = select(ApiKey).where(ApiKey.id == key_id, ApiKey.organization_id == uow.organization)
    key = uow.session.scalar(query.with_for_update())
    if key is None:
        raise ServiceError("api_key_not_found", f"No API key of this organisation has the id {key_id!r}.")
    uow.refresh_now()
    state = key.state(uow.now)
    if state != "active":
        raise ServiceError("invalid_state", f"The API key is {state}; that cannot be changed, create another.")
    return key


def _keep(uow: UnitOfWork, key: ApiKey, secret: str) -> None:
    """Keep the hash of a secret, and nothing else of it."""
    uow.session.add(
        ApiKeySecret(
            secret_hash=secret_hash(secret),
            organization_id=key.organization_id,
            api_key_id=key.id,
            created_at=uow.now,
        )
    )


def _require_expiry(wanted: NewKey, now: datetime) -> None:
    fault = None
    if wanted.expires_at is not None and wanted.expires_at <= now:
        fault = "has to be in the future"
    elif wanted.agent and (wanted.expires_at is None or wanted.expires_at - now > LONGEST_OF_AGENTS):
        fault = f"of an agent's key has to be within {LONGEST_OF_AGENTS.days} days"
    if fault is not None:
        details = (Detail("/expiresAt", fault, "invalid_parameter"),)
        raise ServiceError("invalid_parameter", f"expiresAt {fault}.", details=details)


def _audit(uow: UnitOfWork, what: str, key: ApiKey, before: dict[str, Any] | None, after: dict[str, Any]) -> None:
    uow.audit(f"api_key.{what}", ("api_key", key.id, key.name), before=before, after=after)


def _view(key: ApiKey, grace_ends_at: datetime | None, now: datetime) -> dict[str, Any]:
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
