"""A person's own sessions: list and revoke them."""

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
    """Return a page of the caller's open sessions, newest first."""
    user_id = uow.caller.signed_in_user
    page = page_of(
        uow,
        "list_sessions",
        None,
        select(LoginSession).where(
            LoginSession.user_id == user_id,
            LoginSession.support.is_(False),
            LoginSession.is_live(uow.now),
        ),
        (LoginSession.created_at, LoginSession.id),
        cursor=cursor,
        limit=limit,
        owner=user_id,
    )
    return Page([to_response(uow, session) for session in page.data], page.next_cursor)


def end(uow: UnitOfWork, session_id: str) -> None:
    """End one of the caller's sessions. Raise `not_found` if it is not theirs or not open."""
    session = uow.session.get(LoginSession, session_id)
    own = session is not None and session.user_id == uow.caller.signed_in_user and not session.support
    if not own or not sessions.revoke(uow, session_id):
        raise ServiceError("not_found", "Session not found among your open sessions.")


def to_response(uow: UnitOfWork, session: LoginSession) -> Mapping[str, Any]:
    """Return a session as the contract's `LoginSession`."""
    return _to_response(session, current=session.id == uow.caller.session_id)


def signed_in_response(signed_in: SignedIn) -> Mapping[str, Any]:
    """Return a new session as the contract's `SignedIn`, with its token."""
    return {
        "session_token": signed_in.token,
        "session": _to_response(signed_in.session, current=True),
        "account": signed_in.user,
    }


def _to_response(session: LoginSession, *, current: bool) -> Mapping[str, Any]:
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
