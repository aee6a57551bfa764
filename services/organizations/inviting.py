"""Invitations as the organisation sees them: sent, listed, revoked, and their links."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import ColumnElement, and_, select

from models.identity import Invitation
from models.organizations import Membership, User
from rules.access.invitations import LIFETIME, InvitationState, state_at
from rules.access.permissions import Role
from rules.errors import ServiceError
from rules.ids import new_id
from services.core.pagination import Page, page_of
from services.core.unit_of_work import Unit
from services.identity import one_time_tokens
from services.mail import outbox
from services.organizations.invitations import pending_at, view
from services.organizations.members import require_owner
from services.organizations.organizations import locked

PAGE = "/invitation"
"""Where on the web origin a link leads."""
MOST_IN_A_DAY = 500
"""Invitations of one organisation: mails with words of its own go to people who have not asked for any."""
MOST_TO_ADDRESS = 5
"""Invitations of one organisation to the same address within an hour."""


def list_invitations(unit: Unit, state: InvitationState | None, cursor: str | None, limit: int) -> Page:
    """Return a page of invitations in a state, or in any, the newest first."""
    query = select(Invitation).where(Invitation.organization_id == unit.organization)
    if state is not None:
        query = query.where(_in_state(unit, state))
    keys = (Invitation.created_at, Invitation.id)
    page = page_of(unit, "list_invitations", {"state": state}, query, keys, cursor=cursor, limit=limit)
    return Page([view(unit, invitation) for invitation in page.data], page.next_cursor)


def invite(unit: Unit, email: str, role: Role) -> dict[str, Any]:
    """Invite an address, and mail it a link.

    Raises `already_exists` for a member or somebody who is invited, `insufficient_permission` for a future owner, and
    `rate_limited` after 5 mails to an address within an hour, or 500 within a day.
    """
    organization = locked(unit)
    if role == "owner":
        require_owner(unit)
    email = email.lower()
    _require_new(unit, email)
    _limit(unit, MOST_TO_ADDRESS, timedelta(hours=1), Invitation.email == email)
    _limit(unit, MOST_IN_A_DAY, timedelta(days=1))
    invitation = Invitation(
        id=new_id("inv"),
        organization_id=organization.id,
        email=email,
        role=role,
        invited_by=unit.actor.as_json(),
        created_at=unit.now,
        expires_at=unit.now + LIFETIME,
    )
    unit.session.add(invitation)
    unit.session.flush()
    outbox.post(
        unit,
        email,
        "invitation",
        organization=organization.name,
        inviter=unit.actor.name,
        role=role,
        url=_new_url(unit, invitation),
        expires_at=invitation.expires_at,
    )
    unit.audit("invitation.created", ("invitation", invitation.id, email), before=None, after={"role": role})
    return view(unit, invitation)


def revoke(unit: Unit, invitation_id: str) -> None:
    """Take a pending invitation back: its links are worthless at once; raises `invitation_not_found`."""
    invitation = _pending(unit, invitation_id)
    invitation.revoked_at = unit.now
    one_time_tokens.void(unit, "invitation", invitation.id)
    target = ("invitation", invitation.id, invitation.email)
    unit.audit("invitation.revoked", target, before={"role": invitation.role}, after=None)


def link(unit: Unit, invitation_id: str) -> dict[str, Any]:
    """Return a fresh link of a pending invitation; those before it go on working. Raises `invitation_not_found`."""
    invitation = _pending(unit, invitation_id)
    unit.audit("invitation.link_minted", ("invitation", invitation.id, invitation.email))
    return {"url": _new_url(unit, invitation), "expires_at": invitation.expires_at}


def _new_url(unit: Unit, invitation: Invitation) -> str:
    lifetime = invitation.expires_at - unit.now
    token = one_time_tokens.issue(
        unit, "invitation", invitation.id, lifetime, organization_id=invitation.organization_id
    )
    return f"{unit.surroundings.web_url}{PAGE}?{urlencode({'token': token})}"


def _require_new(unit: Unit, email: str) -> None:
    """Raise `already_exists` for the address of a member, and for one that is invited."""
    member = select(User.id).join(Membership, Membership.user_id == User.id)
    member = member.where(Membership.organization_id == unit.organization, User.email == email)
    if unit.session.scalar(member) is not None:
        raise ServiceError("already_exists", f"{email} is a member already.")
    invited = select(Invitation.id).where(
        Invitation.organization_id == unit.organization, Invitation.email == email, pending_at(unit.now)
    )
    if unit.session.scalar(invited) is not None:
        raise ServiceError("already_exists", f"{email} is invited already; revoke that invitation to send another.")


def _limit(unit: Unit, most: int, within: timedelta, *conditions: ColumnElement[bool]) -> None:
    """Raise `rate_limited` when as many were sent within that time; the organisation's lock makes the count exact."""
    query = select(Invitation.created_at).where(Invitation.organization_id == unit.organization, *conditions)
    before_most = unit.session.scalar(query.order_by(Invitation.created_at.desc()).offset(most - 1).limit(1))
    if before_most is not None and before_most > unit.now - within:
        wait = (before_most + within - unit.now).total_seconds()
        raise ServiceError("rate_limited", "Too many invitations were sent; try again later.", retry_after=wait)


def _pending(unit: Unit, invitation_id: str) -> Invitation:
    query = select(Invitation).where(Invitation.id == invitation_id, Invitation.organization_id == unit.organization)
    invitation = unit.session.scalar(query.with_for_update())
    unit.catch_up()
    if invitation is None or state_at(unit.now, invitation) != "pending":
        raise ServiceError("invitation_not_found", f"There is no pending invitation with the id {invitation_id!r}.")
    return invitation


def _in_state(unit: Unit, state: InvitationState) -> ColumnElement[bool]:
    """Return the SQL twin of `rules.access.invitations.state_at`."""
    undecided = and_(Invitation.accepted_at.is_(None), Invitation.revoked_at.is_(None))
    conditions: dict[InvitationState, ColumnElement[bool]] = {
        "pending": pending_at(unit.now),
        "accepted": Invitation.accepted_at.is_not(None),
        "revoked": and_(Invitation.accepted_at.is_(None), Invitation.revoked_at.is_not(None)),
        "expired": and_(undecided, Invitation.expires_at <= unit.now),
    }
    return conditions[state]
