"""Invitations on the recipient's side: preview by the mailed token, list by address, accept.

An invitation is bound to an address: only the account that has confirmed the address can list and accept it; for
everybody else it does not exist. A token shows the invitation; that in the mail, which nobody else has seen, also
creates the account of the address if there is none (`joining.py`). An invitation that is accepted, revoked, expired,
or of a deleted organisation is not found. Units of work of this module use the database role `identity`.
"""

from typing import Any

from sqlalchemy import Select, select

from models.identity import Invitation, OneTimeToken
from models.organizations import Membership, Organization, User
from rules.errors import ServiceError
from services.core.pagination import Page, page_of
from services.core.unit_of_work import UnitOfWork
from services.identity import one_time_tokens
from services.identity.account_audit import actor_of
from services.organizations.memberships import current_user, is_support, select_organization

PROVES_MAILBOX = "provesMailbox"
"""The detail of a token that was only mailed: whoever has it reads the mailbox of the invited address."""


def preview(uow: UnitOfWork, token: str) -> dict[str, Any]:
    """Return the pending invitation of a mailed token without consuming it. Raise `invitation_not_found`."""
    return _view_with_organization(uow, *_find_by_token(uow, token)[:2])


def find_joinable(uow: UnitOfWork, token: str) -> Invitation:
    """Return the pending invitation of a token that proves the mailbox. Raise `invitation_not_found`."""
    invitation, _, link = _find_by_token(uow, token)
    if not link.details.get(PROVES_MAILBOX):
        raise _not_found()
    return invitation


def _find_by_token(uow: UnitOfWork, token: str) -> tuple[Invitation, Organization, OneTimeToken]:
    link = one_time_tokens.peek(uow, "invitation", token)
    row = uow.session.execute(_pending(uow).where(Invitation.id == (link.subject if link else None))).one_or_none()
    if link is None or row is None:
        raise _not_found()
    return row[0], row[1], link


def list_pending(uow: UnitOfWork, cursor: str | None, limit: int) -> Page:
    """Return a page of the invitations to the person's address, newest first.

    It is empty if the address is not confirmed, and for support sessions: the invitations are of other organisations.
    """
    user = current_user(uow)
    if user.email_verified_at is None or is_support(uow):
        return Page([], None)
    query, keys = _pending(uow).where(Invitation.email == user.email), (Invitation.created_at, Invitation.id)
    page = page_of(uow, "list_pending_invitations", None, query, keys, cursor=cursor, limit=limit, owner=user.id)
    return Page([_view_with_organization(uow, *row) for row in page.data], page.next_cursor)


def accept(uow: UnitOfWork, invitation_id: str) -> dict[str, Any]:
    """Make the person a member and invalidate all links to the invitation.

    The session selects the organisation if it had none. Raise `invitation_not_found`, and `already_exists` if the
    person is a member.
    """
    invitation, organization = accept_as(uow, current_user(uow), invitation_id)
    select_organization(uow, organization.id)
    return _view_with_organization(uow, invitation, organization)


def accept_as(uow: UnitOfWork, user: User, invitation_id: str) -> tuple[Invitation, Organization]:
    """Make a person a member and invalidate all links to the invitation.

    The unit of work then belongs to the organisation. Raise as `accept` does.
    """
    invitation, organization = _lock_pending(uow, invitation_id, user)
    if uow.session.get(Membership, (organization.id, user.id)) is not None:
        raise ServiceError("already_exists", f"You are already a member of {organization.name}.")
    invitation.accepted_at, invitation.accepted_by = uow.now, user.id
    one_time_tokens.invalidate(uow, "invitation", invitation.id)
    uow.session.add(
        Membership(organization_id=organization.id, user_id=user.id, role=invitation.role, created_at=uow.now)
    )
    uow.session.flush()
    person = actor_of(uow, user, organization.id)
    uow.bind_organization(organization.id, person)
    target = ("invitation", invitation.id, invitation.email)
    uow.audit("invitation.accepted", target, before={"state": "pending"}, after={"state": "accepted"})
    uow.audit("member.joined", ("user", user.id, person.name), before=None, after={"role": invitation.role})
    return invitation, organization


def _lock_pending(uow: UnitOfWork, invitation_id: str, user: User) -> tuple[Invitation, Organization]:
    """Return a pending invitation to this person and its organisation, with both rows locked.

    The organisation is locked first, as everywhere, so that it cannot be deleted meanwhile.
    """
    own = (Invitation.id == invitation_id, Invitation.email == user.email)
    organization = uow.session.scalar(
        select(Organization)
        .join(Invitation, Invitation.organization_id == Organization.id)
        .where(*own)
        .with_for_update(read=True, of=Organization)
    )
    invitation = uow.session.scalar(select(Invitation).where(*own).with_for_update())
    uow.refresh_now()
    if invitation is None or organization is None or organization.deleted_at is not None:
        raise _not_found()
    if user.email_verified_at is None or invitation.state(uow.now) != "pending":
        raise _not_found()
    return invitation, organization


def _pending(uow: UnitOfWork) -> Select[Invitation, Organization]:
    return (
        select(Invitation, Organization)
        .join(Organization, Organization.id == Invitation.organization_id)
        .where(Invitation.has_state("pending", uow.now), Organization.deleted_at.is_(None))
    )


def _not_found() -> ServiceError:
    return ServiceError("invitation_not_found", "Invitation not found, or no longer pending.")


def _view_with_organization(uow: UnitOfWork, invitation: Invitation, organization: Organization) -> dict[str, Any]:
    return {"organization": {"id": organization.id, "name": organization.name}, **view(uow, invitation)}


def view(uow: UnitOfWork, invitation: Invitation) -> dict[str, Any]:
    """Return an invitation as its organisation sees it in the API."""
    return {
        "id": invitation.id,
        "email": invitation.email,
        "role": invitation.role,
        "state": invitation.state(uow.now),
        "invited_by": invitation.invited_by,
        "expires_at": invitation.expires_at,
        "created_at": invitation.created_at,
    }
