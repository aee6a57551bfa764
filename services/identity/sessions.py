"""Sessions of signed-in people and devices: start, find, select an organisation, revoke.

A session token identifies a session until it is revoked or 30 days old. Calls of `/v1` use short-lived access tokens
(JWT) that are issued from it and name it (`services/identity/access_tokens.py`). Both are looked up on every request.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import select, update

from models.organizations import LoginSession, Membership, User
from rules.access.access_tokens import AccessTokenSettings
from rules.access.login_sessions import LIFETIME
from rules.errors import ServiceError
from rules.ids import new_id
from services.core.authorization_locks import wait_for_writes
from services.core.tokens import new_session_token, token_hash
from services.core.unit_of_work import UnitOfWork
from services.identity.access_tokens import issue_access_token
from services.identity.account_audit import audit_account
from services.identity.memberships import organizations_of, require_membership
from services.identity.signing_keys import current_signer

Kind = Literal["browser", "device"]
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A new session with its token, which is shown only once."""

    token: str
    session: LoginSession
    user: User


@dataclass(frozen=True, slots=True)
class AccessToken:
    """An access token (JWT), its expiry, and the organisation that it acts in."""

    token: str
    expires_at: datetime
    organization_id: str | None


def start(uow: UnitOfWork, user: User, *, kind: Kind = "browser", organization_id: str | None = None) -> SignedIn:
    """Start a session of a person, always with a new token and a new id (no session fixation).

    It acts in `organization_id`, or else in the person's only organisation; with several, none is selected.
    """
    token = new_session_token()
    session = LoginSession(
        id=new_id("ses"),
        user_id=user.id,
        organization_id=organization_id or _only_organization(uow, user.id),
        support=False,
        kind=kind,
        token_hash=token_hash(token),
        client=uow.caller.client,
        address=uow.caller.address,
        created_at=uow.now,
        expires_at=uow.now + LIFETIME,
    )
    uow.session.add(session)
    uow.session.flush()
    audit_account(uow, user, "session.started", _target(session), before=None, after={"kind": kind})
    return SignedIn(token, session, user)


def issue_token(uow: UnitOfWork, session_id: str) -> AccessToken:
    """Return an access token for a session. Raise `invalid_token` if the session has ended.

    If the person is no longer a member of the active organisation, the token has none until they select one.
    """
    session = _require_live(uow, session_id)
    if not session.support:
        session.last_used_at = uow.now
        if session.organization_id is None:
            session.organization_id = _only_organization(uow, session.user_id)
    organization_id = session.organization_id if session.support or _is_member(uow, session) else None
    lifetime = min(uow.ports[AccessTokenSettings].lifetime, session.expires_at - uow.now) // _SECOND * _SECOND
    token = issue_access_token(
        current_signer(uow),
        user=session.user_id,
        organization=organization_id,
        sid=session.id,
        lifetime=lifetime,
        now=uow.now,
        support=session.support,
    )
    return AccessToken(token, uow.now.replace(microsecond=0) + lifetime, organization_id)


def set_active(uow: UnitOfWork, session_id: str, organization_id: str) -> LoginSession:
    """Select the organisation that a session acts in, from its next access token on.

    Raise `not_found` if the person is not a member, `organization_deleted`, `invalid_token`.
    """
    session = _require_live(uow, session_id)
    session.organization_id = require_membership(uow, session.user_id, organization_id).id
    uow.session.flush()
    uow.bind_organization(organization_id)
    uow.audit("session.organization_chosen", _target(session))
    return session


def revoke(uow: UnitOfWork, session_id: str) -> bool:
    """Revoke a session, effective at once in every process; True if it was open."""
    wait_for_writes(uow, "session", session_id)
    session = _lock_live(uow, session_id)
    if session is None:
        return False
    session.revoked_at = uow.now
    uow.session.flush()
    person = uow.session.get_one(User, session.user_id)
    audit_account(uow, person, "session.ended", _target(session), before={"kind": session.kind}, after=None)
    return True


def revoke_all(uow: UnitOfWork, user_id: str, *, keep: str | None = None) -> None:
    """Revoke all sessions of a person, except `keep`. The caller writes the audit entry."""
    uow.session.execute(
        update(LoginSession)
        .where(LoginSession.user_id == user_id, LoginSession.revoked_at.is_(None), LoginSession.id != (keep or ""))
        .values(revoked_at=uow.now)
    )


def _require_live(uow: UnitOfWork, session_id: str) -> LoginSession:
    session = _lock_live(uow, session_id)
    if session is None:
        raise ServiceError("invalid_token", "The session has ended.")
    return session


def _lock_live(uow: UnitOfWork, session_id: str) -> LoginSession | None:
    """Return a session that has not ended, or None; locked, except for support, whose transactions are read-only."""
    query = select(LoginSession).where(LoginSession.id == session_id, LoginSession.is_live(uow.now))
    read_only = uow.caller.actor.type == "support"
    return uow.session.scalar(query if read_only else query.with_for_update())


def _is_member(uow: UnitOfWork, session: LoginSession) -> bool:
    key = (session.organization_id, session.user_id)
    return session.organization_id is not None and uow.session.get(Membership, key) is not None


def _only_organization(uow: UnitOfWork, user_id: str) -> str | None:
    organizations = organizations_of(uow, user_id)
    return organizations[0] if len(organizations) == 1 else None


def _target(session: LoginSession) -> tuple[str, str, str]:
    return ("session", session.id, session.client or session.kind)
