"""Grants: what people allowed clients to do, and how that ends.

Ending a grant ends its tokens with the next request. What ends one: the person or an administrator, the client itself,
an authorization code or a refresh token that is used again, a new password, leaving the organisation, the deletion of
the organisation (`services/offboarding/deletion.py`), and the blocking of the client by an operator.
"""

from collections.abc import Collection
from datetime import timedelta
from typing import Literal

from sqlalchemy import ColumnElement, select
from sqlalchemy.dialects.postgresql import insert

from models.oauth import OAuthClient, OAuthGrant
from rules.access.oauth import OAuthError
from rules.ids import new_id
from services.core.authorization_locks import wait_for_writes
from services.core.unit_of_work import UnitOfWork
from services.identity.oauth.clients import hold_client

Why = Literal[
    "by_person",
    "by_administrator",
    "by_client",
    "code_reused",
    "refresh_token_reused",
    "password_changed",
    "member_removed",
    "organization_deleted",
    "client_blocked",
]
LIFETIME = timedelta(days=90)


def create_grant(
    uow: UnitOfWork, *, user_id: str, client_id: str, client_name: str, resource: str, scopes: Collection[str]
) -> OAuthGrant:
    """Create a grant in the organisation of the unit of work; others of the same client stay.

    The caller has called `hold_membership` or `require_membership`, so that the person stays a member until the commit.
    Raise OAuthError if the client is blocked; a block waits for this transaction.
    """
    unknown = insert(OAuthClient).values(client_id=client_id)  # a device has no document, and may be new
    uow.session.execute(unknown.on_conflict_do_nothing())
    client = hold_client(uow, client_id)
    if client is None or client.blocked_at is not None:
        raise OAuthError("invalid_client", "The client is blocked.")
    grant = OAuthGrant(
        id=new_id("ogr"),
        user_id=user_id,
        organization_id=uow.organization,
        client_id=client_id,
        client_name=client_name,
        resource=resource,
        scopes=sorted(scopes),
        created_at=uow.now,
        expires_at=uow.now + LIFETIME,
    )
    uow.session.add(grant)
    uow.session.flush()
    after = {"clientId": client_id, "scopes": grant.scopes, "userId": user_id, "expiresAt": grant.expires_at}
    uow.audit("connection.created", target_of(grant), before=None, after=after)
    return grant


def lock_grant(uow: UnitOfWork, grant_id: str) -> OAuthGrant | None:
    """Return a grant with its row locked, so that its tokens are issued one after the other; None if it is unknown."""
    query = select(OAuthGrant).where(OAuthGrant.id == grant_id)
    grant = uow.session.scalar(query.with_for_update().execution_options(populate_existing=True))
    uow.refresh_now()
    return grant


def end_grant(uow: UnitOfWork, grant: OAuthGrant, why: Why, **details: str) -> bool:
    """End a grant, effective at once in every process; True if it was live. `details` are those of the audit entry."""
    # The row comes before the lock of authorizations. The token endpoint locks it too; a write of the client does not.
    lock_grant(uow, grant.id)
    if not grant.is_live(uow.now):
        return False
    wait_for_writes(uow, "oauth_grant", grant.id)
    uow.refresh_now()
    grant.revoked_at, grant.revoked_why = uow.now, why
    uow.session.flush()
    before, after = {"state": "active"}, {"state": "revoked"}
    with uow.impersonate(organization_id=grant.organization_id):
        details |= {"why": why, "userId": grant.user_id}
        uow.audit("connection.revoked", target_of(grant), before=before, after=after, **details)
    return True


def end_grants_of(uow: UnitOfWork, user_id: str, why: Why, *, organization_id: str | None = None) -> None:
    """End the grants of a person, in all organisations or in one."""
    conditions: list[ColumnElement[bool]] = [OAuthGrant.user_id == user_id, OAuthGrant.revoked_at.is_(None)]
    if organization_id is not None:
        conditions.append(OAuthGrant.organization_id == organization_id)
    for grant in uow.session.scalars(select(OAuthGrant).where(*conditions).order_by(OAuthGrant.id)).all():
        end_grant(uow, grant, why)


def target_of(grant: OAuthGrant) -> tuple[str, str, str]:
    """Return the grant as the target of an audit entry."""
    return ("connection", grant.id, grant.client_name)
