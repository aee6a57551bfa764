"""Sign-in with a password, and password reset by a mailed link."""

from datetime import timedelta

from models.organizations import User
from rules.errors import ServiceError
from rules.web_addresses import RESET, WebOrigin
from services.core.password_hashing import PasswordHasher
from services.core.unit_of_work import UnitOfWork
from services.identity import devices, one_time_tokens, sessions, throttle
from services.identity.account_audit import actor_of, audit_account
from services.identity.accounts import dummy_work, expired_link, find_account, normalize_email, require_strong_password
from services.identity.oauth.grants import end_grants_of
from services.identity.sessions import SignedIn
from services.mail.outbox import enqueue_mail

LINK_LIFETIME = timedelta(hours=1)


def sign_in(uow: UnitOfWork, email: str, password: str, session_token: str = "", device_cookie: str = "") -> SignedIn:
    """Start a session of the person with this address and password.

    Raise `wrong_credentials`, the same for an unknown address and a wrong password and after the same work, and
    `rate_limited` after 10 failures for an account, or 30 from a network address, within 15 minutes. Networks and
    browsers where the person has signed in before have a limit of their own; `session_token` and `device_cookie` are
    what the browser sends.
    """
    hasher = uow.ports[PasswordHasher]
    email = normalize_email(email)
    origin = throttle.known_origin(uow, email, session_token, device_cookie)
    with hasher.slot(throttle.network_of(uow.caller.address), known=origin is not None):
        counted = throttle.count_attempt(uow, "sign_in", account=email, address=uow.caller.address, origin=origin)
        found = find_account(uow, email)
        stored = found.password_hash if found is not None and found.email_verified_at is not None else None
        with uow.outside_transaction():
            right = hasher.verify(stored, password)
            rehashed = hasher.hash(password) if right and stored is not None and hasher.is_outdated(stored) else None
        user = find_account(uow, email, lock=True)
        if not right or user is None or user.password_hash != stored:
            message = "Incorrect e-mail address or password, or the address is not confirmed yet."
            raise ServiceError("wrong_credentials", message)
        counted.reset()
        user.password_hash = rehashed or stored
        return sessions.start(uow, user)


def forgot_password(uow: UnitOfWork, email: str) -> None:
    """Mail a link to reset the password of an account; the response does not reveal whether there is one.

    Nothing is mailed if five mails were sent within the last hour, and the latest of them within its last half: that
    link is still valid for half an hour at least. Raise `rate_limited` after 30 requests from a network address within
    an hour.
    """
    email = normalize_email(email)
    if not throttle.count_unless_recent(uow, "reset_mail", email, LINK_LIFETIME / 2):
        return
    user = find_account(uow, email)
    if user is not None:
        _mail_link(uow, user.id, email)
        return
    with dummy_work(uow):
        _mail_link(uow, "", email)


def _mail_link(uow: UnitOfWork, user_id: str, email: str) -> None:
    token = one_time_tokens.issue(uow, "reset_password", user_id, LINK_LIFETIME)
    enqueue_mail(uow, email, "reset_password", url=f"{uow.ports[WebOrigin].url}{RESET}?token={token}")


def reset_password(uow: UnitOfWork, token: str, password: str) -> User:
    """Set a new password by a mailed link, revoke all sessions and connections of the account, and return it.

    The browser of the link is known from then on, so that strangers who try passwords do not keep its owner out.
    Raise `not_found` if the link is used, unknown or expired, and `weak_password`.
    """
    hasher = uow.ports[PasswordHasher]
    with hasher.slot(throttle.network_of(uow.caller.address)):
        link = one_time_tokens.peek(uow, "reset_password", token)
        user = uow.session.get(User, link.subject) if link is not None else None
        if user is None:
            raise expired_link()
        require_strong_password(password, user.email)
        with uow.outside_transaction():
            hashed = hasher.hash(password)
        if one_time_tokens.consume(uow, "reset_password", token) is None:
            raise expired_link()
        # First: it waits for a device that is signing in, whose session is then revoked with the others.
        devices.revoke_approvals(uow, user.id)
        # `key_share` lets writes of the sessions, which `revoke_all` waits for, insert rows that refer to the account,
        # such as a connection. A stronger lock could deadlock with them.
        user = uow.session.get_one(User, user.id, with_for_update={"key_share": True}, populate_existing=True)
        user.password_hash = hashed
        user.email_verified_at = user.email_verified_at or uow.now
        one_time_tokens.invalidate(uow, "reset_password", user.id)
        one_time_tokens.invalidate(uow, "change_email", user.id)
        sessions.revoke_all(uow, user.id)
        with uow.impersonate(actor=actor_of(uow, user, None)):
            end_grants_of(uow, user.id, "password_changed")
        throttle.reset(uow, "sign_in", user.email)
        audit_account(uow, user, "user.password_changed", ("user", user.id, user.name))
        return user
