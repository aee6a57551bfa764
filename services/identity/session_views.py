"""A person's sessions as the contract shows them, and ending one of them."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from models.organizations import LoginSession
from rules.errors import ServiceError
from services.core.pagination import Page, page_of
from services.core.unit_of_work import UnitOfWork
from services.identity import sessions
from services.identity.sessions import SignedIn


def list_sessions(uow: UnitOfWork, cursor: str | None, limit: int) -> Page:
    """List what is signed in as the person who asks, the newest first."""
    person = str(uow.caller.principal_id)
    page = page_of(
        uow,
        "list_sessions",
        None,
        select(LoginSession).where(
            LoginSession.user_id == person,
            LoginSession.support.is_(False),
            LoginSession.revoked_at.is_(None),
            LoginSession.expires_at > uow.now,
        ),
        (LoginSession.created_at, LoginSession.id),
        cursor=cursor,
        limit=limit,
        whose=person,
    )
    return Page([view(uow, session) for session in page.data], page.next_cursor)


def end(uow: UnitOfWork, session_id: str) -> None:
    """End a session of the person who asks; raises `not_found` for anything else, and for one that has ended."""
    session = uow.session.get(LoginSession, session_id)
    own = session is not None and session.user_id == uow.caller.principal_id and not session.support
    if not own or not sessions.revoke(uow, session_id):
        raise ServiceError("not_found", "You have no open session with this id.")


def view(uow: UnitOfWork, session: LoginSession) -> Mapping[str, Any]:
    """Return a session as the contract's `LoginSession`."""
    return _view(session, current=session.id == uow.caller.session_id)


def view_signed_in(signed_in: SignedIn) -> Mapping[str, Any]:
    """Return a session that has just begun as the contract's `SignedIn`, its token shown."""
    return {
        "session_token": signed_in.token,
        "session": _view(signed_in.session, current=True),
        "account": signed_in.user,
    }


def _view(session: LoginSession, *, current: bool) -> Mapping[str, Any]:
    return {
        "id": session.id,
        "kind": session.kind,
        "client": session.client,
        "address": session.address,
        "organization_id": session.organization_id,
        "current": current,
        "created_at": session.created_at,
        "expires_at": session.expires_at,
        "last_used_at": session.last_used_at,
    }
