"""Blocking of a client by an operator: it gets no tokens, and all of its connections end."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert

from models.oauth import OAuthClient, OAuthGrant
from rules.access.permissions import Actor
from rules.errors import ServiceError
from rules.freezes.reasons import MIN_REASON_LENGTH, is_reason
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.identity.oauth.grants import end_grant


@dataclass(frozen=True, slots=True)
class ClientSummary:
    """A client, the name that it gives itself, and the number of its connections."""

    client_id: str
    name: str | None
    blocked_at: datetime | None
    connections: int


def block(uow_factory: UnitOfWorkFactory, client_id: str, *, by: str, reason: str) -> tuple[ClientSummary, int]:
    """Block a client, known or not, end its connections, and return it with their number.

    Once the first transaction is committed, every request of the client is refused. Then each connection is ended in a
    transaction of its own, which waits for what the client is writing. If that is interrupted, blocking the client
    again ends the rest. The audit logs of the organisations name the operator and the reason. Raise `validation_failed`
    for a short reason.
    """
    if not is_reason(reason):
        message = f"A reason of at least {MIN_REASON_LENGTH} characters is required; the organisations can read it."
        raise ServiceError("validation_failed", message)
    caller = Caller(None, Actor("support", None, by), "system")
    with uow_factory.open(caller) as uow:
        uow.session.execute(insert(OAuthClient).values(client_id=client_id).on_conflict_do_nothing())
        client = uow.session.get_one(OAuthClient, client_id, with_for_update=True)
        client.blocked_at = client.blocked_at or uow.now
    with uow_factory.open(caller) as uow:
        live = select(OAuthGrant.id).where(OAuthGrant.client_id == client_id, OAuthGrant.is_live(uow.now))
        grant_ids = uow.session.scalars(live.order_by(OAuthGrant.id)).all()
    ended = 0
    for grant_id in grant_ids:
        with uow_factory.open(caller) as uow:
            ended += end_grant(uow, uow.session.get_one(OAuthGrant, grant_id), "client_blocked", reason=reason)
    with uow_factory.open(caller) as uow:
        return _find(uow, client_id), ended


def unblock(uow: UnitOfWork, client_id: str) -> ClientSummary:
    """Let people connect a client again; its former connections stay ended.

    Raise `not_found` if it is unknown, and `invalid_state` if it is not blocked.
    """
    client = uow.session.get(OAuthClient, client_id, with_for_update=True)
    if client is not None and client.blocked_at is None:
        raise ServiceError("invalid_state", f"The client {client_id} is not blocked.")
    if client is not None:
        client.blocked_at = None
        uow.session.flush()
    return _find(uow, client_id)


def list_clients(uow: UnitOfWork, client_id: str | None) -> list[ClientSummary]:
    """Return a client, or all that are blocked, by id. Raise `not_found`."""
    if client_id is not None:
        return [_find(uow, client_id)]
    blocked = select(OAuthClient.client_id).where(OAuthClient.blocked_at.is_not(None))
    return [_find(uow, found) for found in uow.session.scalars(blocked.order_by(OAuthClient.client_id))]


def _find(uow: UnitOfWork, client_id: str) -> ClientSummary:
    client = uow.session.get(OAuthClient, client_id)
    if client is None:
        raise ServiceError("not_found", f"The client {client_id} is unknown: it was never connected.")
    query = select(func.count()).where(OAuthGrant.client_id == client_id, OAuthGrant.is_live(uow.now))
    connections = uow.session.scalar(query) or 0
    name = (client.document or {}).get("client_name")
    return ClientSummary(client_id, name, client.blocked_at, connections)
