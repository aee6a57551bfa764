"""Operations of the tag Sign-in: accounts, sessions, and the keys that sign their tokens."""

from collections.abc import Mapping
from typing import Any

from rules.access.login_sessions import (
    cookie_name,
    delete_cookie,
    device_cookie_name,
    find_cookie,
    set_cookie,
    set_device_cookie,
)
from rules.web_addresses import WebOrigin
from schemas.replies import HeadedReply, RawReply
from services.core.pagination import Page
from services.core.read_context import ReadContext
from services.core.unit_of_work import UnitOfWork
from services.identity import known_devices, password_sign_in, registration, session_views, sessions, signing_keys
from services.organizations import joining


def sign_up(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Mail a link that confirms a sign-up."""
    registration.sign_up(uow, body["name"], body["email"], body["password"], body.get("invitation_token"))
    return {"email": body["email"]}


def verify_email(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Create the account of a mailed link, confirmed by the password of its sign-up."""
    return registration.verify_email(uow, body["token"], body["password"])


def sign_in(uow: UnitOfWork, body: dict[str, Any], headers: Mapping[str, str]) -> HeadedReply:
    """Start a session and set the browser's cookies."""
    web_url, sent = uow.ports[WebOrigin].url, headers.get("cookie", "")
    previous = find_cookie(sent, cookie_name(web_url))
    previous = previous or headers.get("authorization", "").removeprefix("Bearer ")  # which pages send for the browser
    device = find_cookie(sent, device_cookie_name(web_url))
    signed_in = password_sign_in.sign_in(uow, body["email"], body["password"], previous, device)
    return _with_cookies(uow, signed_in, device)


def join_by_invitation(uow: UnitOfWork, body: dict[str, Any], headers: Mapping[str, str]) -> HeadedReply:
    """Create the account of an invited address, make it a member, and set the browser's cookies."""
    device = find_cookie(headers.get("cookie", ""), device_cookie_name(uow.ports[WebOrigin].url))
    return _with_cookies(uow, joining.join(uow, body["token"], body["name"], body["password"]), device)


def _with_cookies(uow: UnitOfWork, signed_in: sessions.SignedIn, device: str) -> HeadedReply:
    """Return a new session, with its cookie and that of the known device."""
    web_url = uow.ports[WebOrigin].url
    cookies = (
        set_cookie(signed_in.token, uow.now, signed_in.session.expires_at, web_url=web_url),
        set_device_cookie(known_devices.remember(uow, signed_in.user, device), web_url=web_url),
    )
    return HeadedReply(session_views.signed_in_response(signed_in), {"Set-Cookie": cookies})


def sign_out(uow: UnitOfWork) -> RawReply:
    """End the current session and delete the cookie."""
    sessions.revoke(uow, str(uow.caller.session_id))
    return RawReply(204, {"Set-Cookie": delete_cookie(web_url=uow.ports[WebOrigin].url)}, b"")


def forgot_password(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Mail a link to reset a password."""
    password_sign_in.forgot_password(uow, body["email"])
    return {"email": body["email"]}


def reset_password(uow: UnitOfWork, body: dict[str, Any], headers: Mapping[str, str]) -> RawReply:
    """Set a new password for the account of a mailed link, and make the browser known."""
    web_url = uow.ports[WebOrigin].url
    user = password_sign_in.reset_password(uow, body["token"], body["password"])
    device = find_cookie(headers.get("cookie", ""), device_cookie_name(web_url))
    cookie = set_device_cookie(known_devices.remember(uow, user, device), web_url=web_url)
    return RawReply(204, {"Set-Cookie": cookie}, b"")


def mint_session_token(uow: UnitOfWork) -> object:
    """Issue an access token (JWT)."""
    return sessions.issue_token(uow, str(uow.caller.session_id))


def set_active_organization(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Switch the session to another organisation."""
    session = sessions.set_active(uow, str(uow.caller.session_id), body["organization_id"])
    return session_views.to_response(uow, session)


def list_sessions(uow: UnitOfWork, limit: int, cursor: str | None) -> Page:
    """List the current user's sessions."""
    return session_views.list_sessions(uow, cursor, limit)


def revoke_session(uow: UnitOfWork, session_id: str) -> None:
    """End one of the current user's sessions."""
    session_views.end(uow, session_id)


async def get_jwks(context: ReadContext) -> HeadedReply:
    """Return the public keys that verify access tokens."""
    rows = await context.fetch(signing_keys.PUBLISHED_KEYS)
    keys = [signing_keys.public_jwk(row) for row in rows]
    return HeadedReply({"keys": keys}, {"Cache-Control": "public, max-age=300"})
