"""Audit entries about a person's own account, written in each of their organisations."""

from typing import Any

from models.organizations import User
from rules.access.permissions import Actor
from services.core.unit_of_work import UnitOfWork
from services.identity.memberships import organizations_of


def actor_of(user: User) -> Actor:
    """Return a person as an audit actor."""
    return Actor("user", user.id, user.name)


def audit_account(uow: UnitOfWork, user: User, action: str, target: tuple[str, str, str], **details: Any) -> None:
    """Add an audit entry about a person in each of their organisations; none if they have no organisation.

    The actor is the caller, or the person if the request is not signed in.
    """
    actor = uow.actor if uow.caller.principal_id else actor_of(user)
    for organization_id in organizations_of(uow, user.id):
        with uow.impersonate(organization_id=organization_id, actor=actor):
            uow.audit(action, target, **details)
