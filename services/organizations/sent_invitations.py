"""Invitations on the organisation's side: send, list, revoke, get a link."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import ColumnElement, select

from models.identity import Invitation
from models.organizations import Membership, User
from rules.access.invitations import LIFETIME, InvitationState
from rules.access.permissions import Role
from rules.errors import ServiceError
from rules.ids import new_id
from rules.web_addresses import INVITATION, WebOrigin
from services.core.pagination import Page, page_of
from services.core.unit_of_work import UnitOfWork
from services.identity import one_time_tokens
from services.identity.accounts import normalize_email
from services.mail import outbox
from services.organizations.members import require_owner
from services.organizations.organizations import lock_current
from services.organizations.received_invitations import PROVES_MAILBOX, view

MAX_PER_DAY = 500
"""Invitations of one organisation per day: they are unsolicited mails with text that the organisation chooses."""
MAX_PER_ADDRESS = 5
"""Invitations of one organisation to the same address per hour."""


def list_invitations(uow: UnitOfWork, state: InvitationState | None, cursor: str | None, limit: int) -> Page:
    """Return a page of invitations, newest first, optionally in one state."""
    query = select(Invitation).where(Invitation.organization_id == uow.organization)
    if state is not None:
        query = query.where(Invitation.has_state(state, uow.now))
    keys = (Invitation.created_at, Invitation.id)
    page = page_of(uow, "list_invitations", {"state": state}, query, keys, cursor=cursor, limit=limit)
    return Page([view(uow, invitation) for invitation in page.data], page.next_cursor)


def invite(uow: UnitOfWork, email: str, role: Role) -> dict[str, Any]:
    """Invite an address and mail it a link.

    Raise `already_exists` if the address belongs to a member or is invited, `insufficient_permission` if a person who
    is not an owner invites an owner, and `rate_limited` after 5 mails to an address in an hour, or 500 in a day.
    """
    organization = lock_current(uow)
    if role == "owner":
        require_owner(uow)
    email = normalize_email(email)
    _require_new(uow, email)
    _require_below_limit(uow, MAX_PER_ADDRESS, timedelta(hours=1), Invitation.email == email)
    _require_below_limit(uow, MAX_PER_DAY, timedelta(days=1))
    invitation = Invitation(
        id=new_id("inv"),
        organization_id=organization.id,
        email=email,
        role=role,
        invited_by=uow.actor.as_json(),
        created_at=uow.now,
        expires_at=uow.now + LIFETIME,
    )
    uow.session.add(invitation)
    uow.session.flush()
    outbox.enqueue_mail(
        uow,
        email,
        "invitation",
        organization=organization.name,
        inviter=uow.actor.name,
        role=role,
        url=_new_url(uow, invitation, mailed=True),
        expires_at=invitation.expires_at,
    )
    uow.audit("invitation.created", ("invitation", invitation.id, email), before=None, after={"role": role})
    return view(uow, invitation)


def revoke(uow: UnitOfWork, invitation_id: str) -> None:
    """Revoke a pending invitation; its links stop working at once. Raise `invitation_not_found`."""
    invitation = _lock_pending(uow, invitation_id)
    invitation.revoked_at = uow.now
    one_time_tokens.invalidate(uow, "invitation", invitation.id)
    target = ("invitation", invitation.id, invitation.email)
    uow.audit("invitation.revoked", target, before={"role": invitation.role}, after=None)


def create_link(uow: UnitOfWork, invitation_id: str) -> dict[str, Any]:
    """Return a new link for a pending invitation; earlier links still work. Raise `invitation_not_found`."""
    invitation = _lock_pending(uow, invitation_id)
    uow.audit("invitation.link_minted", ("invitation", invitation.id, invitation.email))
    return {"url": _new_url(uow, invitation, mailed=False), "expires_at": invitation.expires_at}


def _new_url(uow: UnitOfWork, invitation: Invitation, *, mailed: bool) -> str:
    """Return the address of a new link; only one that nobody sees but in the mail proves the mailbox."""
    lifetime = invitation.expires_at - uow.now
    token = one_time_tokens.issue(
        uow,
        "invitation",
        invitation.id,
        lifetime,
        organization_id=invitation.organization_id,
        details={PROVES_MAILBOX: True} if mailed else {},
    )
    return f"{uow.ports[WebOrigin].url}{INVITATION}?{urlencode({'token': token})}"


def _require_new(uow: UnitOfWork, email: str) -> None:
    """Raise `already_exists` if the address belongs to a member or has a pending invitation."""
    member = select(User.id).join(Membership, Membership.user_id == User.id)
    member = member.where(Membership.organization_id == uow.organization, User.email == email)
    if uow.session.scalar(member) is not None:
        raise ServiceError("already_exists", f"{email} is already a member.")
    invited = select(Invitation.id).where(
        Invitation.organization_id == uow.organization,
        Invitation.email == email,
        Invitation.has_state("pending", uow.now),
    )
    if uow.session.scalar(invited) is not None:
        raise ServiceError("already_exists", f"{email} already has an invitation. Revoke it to send another.")


def _require_below_limit(uow: UnitOfWork, limit: int, within: timedelta, *conditions: ColumnElement[bool]) -> None:
    """Raise `rate_limited` if `limit` were sent within that time; the organisation's lock makes the count exact."""
    query = select(Invitation.created_at).where(Invitation.organization_id == uow.organization, *conditions)
    oldest = uow.session.scalar(query.order_by(Invitation.created_at.desc()).offset(limit - 1).limit(1))
    if oldest is not None and oldest > uow.now - within:
        wait = (oldest + within - uow.now).total_seconds()
        raise ServiceError("rate_limited", "Too many invitations. Try again later.", retry_after=wait)


def _lock_pending(uow: UnitOfWork, invitation_id: str) -> Invitation:
    query = select(Invitation).where(Invitation.id == invitation_id, Invitation.organization_id == uow.organization)
    invitation = uow.session.scalar(query.with_for_update())
    uow.refresh_now()
    if invitation is None or invitation.state(uow.now) != "pending":
        raise ServiceError("invitation_not_found", f"There is no pending invitation with the id {invitation_id!r}.")
    return invitation
