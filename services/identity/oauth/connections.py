"""Connections: the live grants of a person or of an organisation, listed and ended."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Select, func, select

from models.oauth import OAuthGrant
from models.organizations import Membership, Organization, User
from rules.errors import ServiceError
from services.core.pagination import Page, page_of
from services.core.unit_of_work import UnitOfWork
from services.identity.oauth.grants import Why, end_grant

_KEYS = (OAuthGrant.created_at, OAuthGrant.id)


def list_mine(uow: UnitOfWork, cursor: str | None, limit: int) -> Page:
    """Return a page of the caller's connections in all of their organisations, newest first."""
    person = uow.caller.user_id
    query = _live(uow).where(OAuthGrant.user_id == person)
    page = page_of(uow, "list_connections", None, query, _KEYS, cursor=cursor, limit=limit, owner=person)
    return Page([_to_response(*row) for row in page.data], page.next_cursor)


def list_of_organization(uow: UnitOfWork, cursor: str | None, limit: int) -> Page:
    """Return a page of the connections that members have in the organisation, newest first."""
    query = _live(uow).where(OAuthGrant.organization_id == uow.organization)
    page = page_of(uow, "list_organization_connections", None, query, _KEYS, cursor=cursor, limit=limit)
    return Page([_to_response(*row) for row in page.data], page.next_cursor)


def end_mine(uow: UnitOfWork, connection_id: str) -> None:
    """End one of the caller's connections. Raise `connection_not_found` if it is not theirs or has ended."""
    grant = uow.session.get(OAuthGrant, connection_id)
    own = grant is not None and grant.user_id == uow.caller.user_id
    _end(uow, connection_id, grant if own else None, "by_person")


def end_of_organization(uow: UnitOfWork, connection_id: str) -> None:
    """End a connection of a member. Raise `connection_not_found` if it is not the organisation's or has ended."""
    query = select(OAuthGrant).where(OAuthGrant.id == connection_id, OAuthGrant.organization_id == uow.organization)
    _end(uow, connection_id, uow.session.scalar(query), "by_administrator")


def _end(uow: UnitOfWork, connection_id: str, grant: OAuthGrant | None, why: Why) -> None:
    if grant is None or not end_grant(uow, grant, why):
        raise ServiceError("connection_not_found", f"Connection {connection_id!r} not found among those that are open.")


def _live(uow: UnitOfWork) -> Select[OAuthGrant, str, str]:
    return (
        select(OAuthGrant, func.member_name(User.id, OAuthGrant.organization_id), Organization.name)
        .join(User, User.id == OAuthGrant.user_id)
        .join(Organization, Organization.id == OAuthGrant.organization_id)
        .join(
            Membership,
            (Membership.organization_id == OAuthGrant.organization_id) & (Membership.user_id == OAuthGrant.user_id),
        )
        .where(OAuthGrant.is_live(uow.now), Organization.deleted_at.is_(None))
    )


def _to_response(grant: OAuthGrant, person: str, organization: str) -> Mapping[str, Any]:
    return {
        "id": grant.id,
        "client_id": grant.client_id,
        "client_name": grant.client_name,
        "organization": {"id": grant.organization_id, "name": organization},
        "person": {"type": "user", "id": grant.user_id, "name": person},
        "scopes": grant.scopes,
        "created_at": grant.created_at,
        "last_used_at": grant.last_used_at,
        "expires_at": grant.expires_at,
    }
