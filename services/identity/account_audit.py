"""Audit entries about a person's own account, written in each of their organisations."""

from typing import Any

from sqlalchemy import func, select

from models.organizations import User
from rules.access.permissions import Actor
from services.core.unit_of_work import UnitOfWork
from services.identity.memberships import organizations_of


def actor_of(uow: UnitOfWork, user: User, organization_id: str | None) -> Actor:
    """Return a person as an audit actor, with their address where another member has the same name."""
    name = uow.session.scalar(select(func.member_name(user.id, organization_id)))
    return Actor("user", user.id, name or user.name)


def audit_account(uow: UnitOfWork, user: User, action: str, target: tuple[str, str, str], **details: Any) -> None:
    """Add an audit entry about a person in each of their organisations; none if they have no organisation.

    The actor is the caller, or the person if the request is not signed in.
    """
    caller = uow.actor if uow.caller.principal_id else None
    for organization_id in organizations_of(uow, user.id):
        own = caller is None or (caller.type, caller.id) == ("user", user.id)
        actor = actor_of(uow, user, organization_id) if own else caller
        with uow.impersonate(organization_id=organization_id, actor=actor):
            uow.audit(action, target, **details)
