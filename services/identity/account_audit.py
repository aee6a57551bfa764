"""What a person does to their own account, in the audit of every organisation that they belong to."""

from typing import Any

from sqlalchemy import select

from models.organizations import Membership, Organization, User
from rules.access.permissions import Actor
from services.core.unit_of_work import UnitOfWork


def organizations_of(uow: UnitOfWork, user_id: str) -> list[str]:
    """Return the organisations that a person belongs to, in the order of their ids; deleted ones are left out."""
    query = (
        select(Membership.organization_id)
        .join(Organization, Organization.id == Membership.organization_id)
        .where(Membership.user_id == user_id, Organization.deleted_at.is_(None))
        .order_by(Membership.organization_id)
    )
    return list(uow.session.scalars(query))


def actor_of(user: User) -> Actor:
    """Return a person as an actor."""
    return Actor("user", user.id, user.name)


def record(uow: UnitOfWork, user: User, action: str, target: tuple[str, str, str], **details: Any) -> None:
    """Audit what a person did, in each of their organisations; in that of nobody where they have none.

    A unit of somebody who is not signed in yet acts as the person.
    """
    actor = uow.actor if uow.caller.principal_id else actor_of(user)
    for organization_id in organizations_of(uow, user.id):
        with uow.impersonate(organization_id=organization_id, actor=actor):
            uow.audit(action, target, **details)
