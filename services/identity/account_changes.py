"""Changes that people make of their own account: name, password, address, all sessions.

What would give the account to another person needs the password besides the session, which may be stolen or left open.
A new address is confirmed by the person in a session of theirs, with a link that is mailed to it. Otherwise a stranger
could have the owner of an address confirm it for the stranger's account.
"""

from datetime import timedelta
from typing import cast

from models.organizations import User
from rules.errors import ServiceError, field_error
from rules.web_addresses import CONFIRM_EMAIL, FORGOT, SIGN_IN, WebOrigin
from services.core.password_hashing import PasswordHasher
from services.core.unit_of_work import UnitOfWork
from services.identity import devices, one_time_tokens, sessions, throttle
from services.identity.account_audit import audit_account
from services.identity.accounts import (
    dummy_work,
    expired_link,
    find_account,
    lock_address,
    normalize_email,
    require_strong_password,
)
from services.identity.oauth.grants import end_grants_of
from services.mail.outbox import enqueue_mail

LINK_LIFETIME = timedelta(hours=1)


def change_name(uow: UnitOfWork, name: str) -> User:
    """Change the caller's name."""
    user = _lock(uow)
    before, user.name = user.name, name.strip()
    if user.name != before:
        uow.session.flush()
        audit_account(uow, user, "user.renamed", _target(user), before={"name": before}, after={"name": user.name})
    return user


def change_password(uow: UnitOfWork, current: str, password: str) -> None:
    """Set a new password, and end all other sessions, connections, approvals and mailed links of the caller.

    Raise `weak_password`, `wrong_password`, and `rate_limited` after 10 wrong passwords of a session within 15 minutes.
    """
    require_strong_password(password, _person(uow).email)
    stored, hashed = _check_password(uow, current, password)
    # Before the account is locked, as in `password_sign_in.reset_password`.
    devices.revoke_approvals(uow, uow.caller.signed_in_user)
    user = _lock(uow, stored)
    user.password_hash = hashed
    one_time_tokens.invalidate(uow, "reset_password", user.id)
    one_time_tokens.invalidate(uow, "change_email", user.id)
    sessions.revoke_all(uow, user.id, keep=uow.caller.session_id)
    end_grants_of(uow, user.id, "password_changed")
    enqueue_mail(uow, user.email, "password_changed", forgot_url=uow.ports[WebOrigin].url + FORGOT)
    audit_account(uow, user, "user.password_changed", _target(user))


def request_email_change(uow: UnitOfWork, email: str, password: str) -> None:
    """Mail a link to a new address, and a notice to the present one; whether the new one has an account is not shown.

    Raise `validation_failed` for the present address, `wrong_password`, and `rate_limited` after 10 wrong passwords of
    a session within 15 minutes, or 5 mails within an hour.
    """
    email, web = normalize_email(email), uow.ports[WebOrigin].url
    if email == _person(uow).email:
        message = "This is your address already."
        raise field_error("/email", message, message=message, code="validation_failed")
    stored, _ = _check_password(uow, password)
    user = _lock(uow, stored)
    throttle.count_attempt(uow, "change_mail", account=user.id, address=uow.caller.address)
    one_time_tokens.invalidate(uow, "change_email", user.id)
    if find_account(uow, email) is None:
        url = f"{web}{CONFIRM_EMAIL}?token={_issue(uow, user, email)}"
        enqueue_mail(uow, email, "change_email", url=url)
    else:
        with dummy_work(uow):
            _issue(uow, user, email)
        enqueue_mail(uow, email, "taken_address", sign_in_url=web + SIGN_IN)
    enqueue_mail(uow, user.email, "email_change_requested", address=email, forgot_url=web + FORGOT)
    audit_account(uow, user, "user.email_change_requested", _target(user))


def confirm_email_change(uow: UnitOfWork, token: str) -> User:
    """Change the caller's address to that of a mailed link.

    Raise `not_found` if the link is used, unknown or expired, or another person's, or if the address has an account.
    """
    link = one_time_tokens.peek(uow, "change_email", token)
    if link is None or link.subject != uow.caller.user_id:
        raise expired_link()
    email = cast(str, link.details["email"])
    lock_address(uow, email)
    if one_time_tokens.consume(uow, "change_email", token) is None or find_account(uow, email) is not None:
        raise expired_link()
    user = _lock(uow)
    before, user.email, user.email_verified_at = user.email, email, uow.now
    uow.session.flush()
    one_time_tokens.invalidate(uow, "reset_password", user.id)
    one_time_tokens.invalidate(uow, "verify_email", email)
    enqueue_mail(uow, before, "email_changed", address=email)
    audit_account(uow, user, "user.email_changed", _target(user), before={"email": before}, after={"email": email})
    return user


def sign_out_everywhere(uow: UnitOfWork) -> None:
    """End all sessions of the caller, and approvals that no device has used yet."""
    user = _person(uow)
    devices.revoke_approvals(uow, user.id)
    sessions.revoke_all(uow, user.id)
    audit_account(uow, user, "user.signed_out", _target(user))


def _check_password(uow: UnitOfWork, password: str, new: str | None = None) -> tuple[str | None, str | None]:
    """Check the caller's present password; return its stored hash, and the hash of the new password if one is given.

    Raise `wrong_password` and `rate_limited`. Attempts are counted for each session, so that a stolen one does not lock
    the user out.
    """
    hasher, person = uow.ports[PasswordHasher], _person(uow)
    with hasher.slot(throttle.network_of(uow.caller.address), known=True):
        counted = throttle.count_attempt(
            uow, "password", account=person.id, address=uow.caller.address, origin=uow.caller.session_id
        )
        stored = person.password_hash
        with uow.outside_transaction():
            right = hasher.verify(stored, password)
            hashed = hasher.hash(new) if right and new is not None else None
        if not right:
            raise _wrong_password()
        counted.reset()
        return stored, hashed


def _person(uow: UnitOfWork) -> User:
    return uow.session.get_one(User, uow.caller.user_id)


def _lock(uow: UnitOfWork, stored: str | None = None) -> User:
    """Return the caller's account, locked. Raise `wrong_password` if its password hash is no longer `stored`.

    The lock lets other transactions insert rows that refer to the account (`key_share`), such as a connection.
    `sessions.revoke_all` waits for the writes of the sessions, so a stronger lock could deadlock with them.
    """
    user = uow.session.get_one(User, uow.caller.user_id, with_for_update={"key_share": True}, populate_existing=True)
    if stored is not None and user.password_hash != stored:
        raise _wrong_password()
    return user


def _issue(uow: UnitOfWork, user: User, email: str) -> str:
    return one_time_tokens.issue(uow, "change_email", user.id, LINK_LIFETIME, details={"email": email})


def _target(user: User) -> tuple[str, str, str]:
    return ("user", user.id, user.name)


def _wrong_password() -> ServiceError:
    return ServiceError("wrong_password", "The password is not that of your account.")
