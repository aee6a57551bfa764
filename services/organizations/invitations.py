"""Invitations as the invited see them: shown by the mailed token, listed by their address, accepted.

An invitation is bound to an address: only the account that has confirmed it sees and accepts it. The token in the
mail shows what one is invited to, and is no right by itself. For everybody else an invitation is not there, and
neither is one that was accepted, revoked, has expired, or whose organisation has been deleted.
Everything here runs in units of the realm `identity`.
"""

from typing import Any, NoReturn

from sqlalchemy import Select, select

from models.identity import Invitation
from models.organizations import Membership, Organization, User
from rules.errors import ServiceError
from services.core.pagination import Page, page_of
from services.core.unit_of_work import UnitOfWork
from services.identity import one_time_tokens
from services.organizations.memberships import act_in, is_support, person


def preview(uow: UnitOfWork, token: str) -> dict[str, Any]:
    """Return the pending invitation that a mailed token is for; raises `invitation_not_found`. Uses nothing up."""
    found = one_time_tokens.peek(uow, "invitation", token)
    query = _received(uow).where(Invitation.id == (found.subject if found else None))
    row = uow.session.execute(query).one_or_none()
    if row is None:
        _refuse()
    return _view(uow, *row)


def list_pending(uow: UnitOfWork, cursor: str | None, limit: int) -> Page:
    """Return a page of the invitations to the person's address, the newest first.

    None for an address that is not confirmed; none for a support session, since they are of other organisations.
    """
    user = person(uow)
    if user.email_verified_at is None or is_support(uow):
        return Page([], None)
    query, keys = _received(uow).where(Invitation.email == user.email), (Invitation.created_at, Invitation.id)
    page = page_of(uow, "list_pending_invitations", None, query, keys, cursor=cursor, limit=limit, owner=user.id)
    return Page([_view(uow, *row) for row in page.data], page.next_cursor)


def accept(uow: UnitOfWork, invitation_id: str, token: str | None = None) -> dict[str, Any]:
    """Make the person a member, once; all links to the invitation are worthless from then on.

    A token is not needed; one that is given has to be of this invitation. The sign-in acts in the organisation if it
    acted in none. Raises `invitation_not_found`, and `already_exists` for somebody who is a member.
    """
    user = person(uow)
    invitation, organization = _locked(uow, invitation_id, user)
    if token is not None:
        used = one_time_tokens.consume(uow, "invitation", token)
        if used is None or used.subject != invitation.id:
            _refuse()
    if uow.session.get(Membership, (organization.id, user.id)) is not None:
        raise ServiceError("already_exists", f"You are a member of {organization.name} already.")
    invitation.accepted_at, invitation.accepted_by = uow.now, user.id
    one_time_tokens.invalidate(uow, "invitation", invitation.id)
    uow.session.add(
        Membership(organization_id=organization.id, user_id=user.id, role=invitation.role, created_at=uow.now)
    )
    uow.session.flush()
    act_in(uow, organization.id)
    uow.bind_organization(organization.id)
    target = ("invitation", invitation.id, invitation.email)
    uow.audit("invitation.accepted", target, before={"state": "pending"}, after={"state": "accepted"})
    uow.audit("member.joined", ("user", user.id, user.name), before=None, after={"role": invitation.role})
    return _view(uow, invitation, organization)


def _locked(uow: UnitOfWork, invitation_id: str, user: User) -> tuple[Invitation, Organization]:
    """Return a pending invitation to this person, and what it is to; of several who come at once, one gets it.

    The organisation is locked first, as by everybody, so that it is not deleted meanwhile.
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
        _refuse()
    if user.email_verified_at is None or invitation.state(uow.now) != "pending":
        _refuse()
    return invitation, organization


def _received(uow: UnitOfWork) -> Select[Invitation, Organization]:
    return (
        select(Invitation, Organization)
        .join(Organization, Organization.id == Invitation.organization_id)
        .where(Invitation.has_state("pending", uow.now), Organization.deleted_at.is_(None))
    )


def _refuse() -> NoReturn:
    raise ServiceError("invitation_not_found", "There is no such invitation, or it is no longer pending.")


def _view(uow: UnitOfWork, invitation: Invitation, organization: Organization) -> dict[str, Any]:
    return {"organization": {"id": organization.id, "name": organization.name}, **view(uow, invitation)}


def view(uow: UnitOfWork, invitation: Invitation) -> dict[str, Any]:
    """Return an invitation as the contract shows it to its organisation."""
    return {
        "id": invitation.id,
        "email": invitation.email,
        "role": invitation.role,
        "state": invitation.state(uow.now),
        "invited_by": invitation.invited_by,
        "expires_at": invitation.expires_at,
        "created_at": invitation.created_at,
    }
