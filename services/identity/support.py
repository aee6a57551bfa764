"""Support sessions: an operator reads an organisation's data, for a limited time and a stated reason.

Only an operator's command starts them (`app/commands/support.py`). The edge rejects their writes, and their
transactions are read-only in the database (I13). The organisation's audit log names the operator and the reason. An
operator is a user without password, membership or address, so signing in as one is impossible.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.dialects.postgresql import insert

from models.organizations import LoginSession, Organization, User
from rules.access.permissions import Actor
from rules.errors import ServiceError
from rules.freezes.reasons import MIN_REASON_LENGTH, is_reason
from rules.ids import new_id
from services.core.unit_of_work import UnitOfWork
from services.identity.access_tokens import issue_access_token
from services.identity.signing_keys import current_signer

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class SupportSession:
    """A new support session with its token, which is shown only once."""

    token: str
    session_id: str
    organization: Organization
    expires_at: datetime


def start(uow: UnitOfWork, reference: str, *, by: str, reason: str, lifetime: timedelta) -> SupportSession:
    """Start a support session in an organisation, given by id or slug; `lifetime` is cut to whole seconds.

    `by` is the operator's name or address, which the audit log shows with the reason. Raise `not_found`,
    `organization_deleted`, `reason_required`.
    """
    organization = find_organization(uow, reference)
    if not is_reason(reason):
        raise ServiceError("reason_required", f"The reason must have at least {MIN_REASON_LENGTH} characters.")
    operator = _operator(uow, by)
    expires_at = uow.now.replace(microsecond=0) + lifetime // _SECOND * _SECOND
    session = LoginSession(
        id=new_id("ses"),
        user_id=operator.id,
        organization_id=organization.id,
        support=True,
        kind="support",
        support_by=by,
        support_reason=reason,
        created_at=uow.now,
        expires_at=expires_at,
    )
    uow.session.add(session)
    uow.session.flush()
    _audit(uow, "started", session, operator, reason=reason, before=None, after={"expiresAt": expires_at})
    token = issue_access_token(
        current_signer(uow),
        user=operator.id,
        organization=organization.id,
        sid=session.id,
        lifetime=lifetime,
        now=uow.now,
        support=True,
    )
    return SupportSession(token, session.id, organization, expires_at)


def end_all(uow: UnitOfWork, reference: str, *, by: str) -> int:
    """End all open support sessions of an organisation and return their number. Raise `not_found`."""
    organization = find_organization(uow, reference, include_deleted=True)
    operator = _operator(uow, by)
    sessions = uow.session.scalars(
        select(LoginSession)
        .where(
            LoginSession.organization_id == organization.id,
            LoginSession.support,
            LoginSession.is_live(uow.now),
        )
        .order_by(LoginSession.id)
        .with_for_update()
    ).all()
    for session in sessions:
        session.revoked_at = uow.now
        _audit(uow, "ended", session, operator, before={"expiresAt": session.expires_at}, after=None)
    return len(sessions)


def find_organization(uow: UnitOfWork, reference: str, *, include_deleted: bool = False) -> Organization:
    """Return an organisation by id or slug; a deleted one only if `include_deleted`.

    Raise `not_found`, `organization_deleted`.
    """
    named = or_(Organization.id == reference, Organization.slug == reference)
    organization = uow.session.scalar(select(Organization).where(named))
    if organization is None:
        raise ServiceError("not_found", f"Organisation {reference!r} not found. Use its id (org_…) or its slug.")
    if organization.deleted_at is not None and not include_deleted:
        raise ServiceError("organization_deleted", f"The organisation {reference!r} has been deleted.")
    return organization


def _operator(uow: UnitOfWork, by: str) -> User:
    """Return the user of an operator, created on first use; its address is not valid for mail or sign-in."""
    address = f"support: {by}".lower().replace("@", " at ")
    uow.session.execute(
        insert(User)
        .values(id=new_id("usr"), email=address, name=by, created_at=uow.now)
        .on_conflict_do_nothing(index_elements=[User.email])
    )
    return uow.session.scalars(select(User).where(User.email == address)).one()


def _audit(uow: UnitOfWork, event: str, session: LoginSession, operator: User, **details: Any) -> None:
    assert session.organization_id is not None
    uow.bind_organization(session.organization_id, Actor("support", operator.id, operator.name))
    uow.audit(f"support.session_{event}", ("session", session.id, session.support_by or ""), **details)
