"""The organisations that a person is a member of, whichever of them the caller acts in."""

from sqlalchemy import select

from models.organizations import Membership, Organization
from rules.errors import ServiceError
from services.core.authorization_locks import hold_membership
from services.core.unit_of_work import UnitOfWork


def organizations_of(uow: UnitOfWork, user_id: str) -> list[str]:
    """Return the ids of a person's organisations, sorted, without deleted ones."""
    query = (
        select(Membership.organization_id)
        .join(Organization, Organization.id == Membership.organization_id)
        .where(Membership.user_id == user_id, Organization.deleted_at.is_(None))
        .order_by(Membership.organization_id)
    )
    return list(uow.session.scalars(query))


def require_membership(uow: UnitOfWork, user_id: str, organization_id: str) -> Organization:
    """Return an organisation of a person, whose removal from it waits for this transaction.

    Raise `not_found` if they are not a member, and `organization_deleted`.
    """
    hold_membership(uow, organization_id, user_id)
    query = select(Organization).join(Membership, Membership.organization_id == Organization.id)
    found = uow.session.scalar(query.where(Organization.id == organization_id, Membership.user_id == user_id))
    if found is None:
        raise ServiceError("not_found", "Organisation not found among those you belong to.")
    if found.deleted_at is not None:
        raise ServiceError("organization_deleted", "The organisation has been deleted.")
    return found
