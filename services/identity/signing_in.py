"""Signing in with a password, and choosing another one by a mailed link."""

from datetime import timedelta

from models.organizations import User
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.identity import devices, one_time_tokens, sessions, throttle
from services.identity.account_audit import record
from services.identity.accounts import account_of, in_vain, normal, require_good
from services.identity.sessions import SignedIn
from services.mail.outbox import enqueue_mail

LINK_LIVES = timedelta(hours=1)


def sign_in(uow: UnitOfWork, email: str, password: str) -> SignedIn:
    """Begin a session of the person whom address and password belong to.

    Raises `wrong_credentials`, the same for an unknown address and a wrong password and after the same work, and
    `rate_limited` after 10 failures for an account, or 30 from an address, within 15 minutes.
    """
    hasher = uow.dependencies.password_hasher
    with hasher.slot():
        email = normal(email)
        counted = throttle.count(uow, "sign_in", account=email, address=uow.caller.address)
        found = account_of(uow, email)
        stored = found.password_hash if found is not None and found.email_verified_at is not None else None
        with uow.outside_transaction():
            right = hasher.verify(stored, password)
            renewed = hasher.hash(password) if right and stored is not None and hasher.is_outdated(stored) else None
        user = account_of(uow, email, lock=True)
        if not right or user is None or user.password_hash != stored:
            message = "E-mail address or password is wrong, or the address is not confirmed yet."
            raise ServiceError("wrong_credentials", message)
        counted.forget()
        user.password_hash = renewed or stored
        return sessions.start(uow, user)


def forgot_password(uow: UnitOfWork, email: str) -> None:
    """Mail a link by which the owner of an account chooses another password; who asks learns nothing of accounts.

    Raises `rate_limited` after 5 mails to an address, or 30 from one, within an hour.
    """
    email = normal(email)
    throttle.count(uow, "mail", account=email, address=uow.caller.address)
    user = account_of(uow, email)
    if user is not None:
        _mail_link(uow, user.id, email)
        return
    with in_vain(uow):
        _mail_link(uow, "", email)


def _mail_link(uow: UnitOfWork, user_id: str, email: str) -> None:
    token = one_time_tokens.issue(uow, "reset_password", user_id, LINK_LIVES)
    enqueue_mail(uow, email, "reset_password", url=f"{uow.dependencies.web_url}/reset?token={token}")


def reset_password(uow: UnitOfWork, token: str, password: str) -> None:
    """Give an account another password, by a mailed link; every session of it ends.

    Raises `not_found` for a link that is used, unknown or too old, and `weak_password`.
    """
    with uow.dependencies.password_hasher.slot():
        known = one_time_tokens.look(uow, "reset_password", token)
        user = uow.session.get(User, known.subject) if known is not None else None
        if user is None:
            raise _spent()
        require_good(password, user.email)
        with uow.outside_transaction():
            hashed = uow.dependencies.password_hasher.hash(password)
        if one_time_tokens.use(uow, "reset_password", token) is None:
            raise _spent()
        devices.withdraw(uow, user.id)  # first: a device that is being let in is waited for, and ends with the others
        user = uow.session.get_one(User, user.id, with_for_update=True, populate_existing=True)
        user.password_hash = hashed
        user.email_verified_at = user.email_verified_at or uow.now
        one_time_tokens.void(uow, "reset_password", user.id)
        sessions.revoke_all(uow, user.id)
        throttle.forget(uow, "sign_in", user.email)
        record(uow, user, "user.password_changed", ("user", user.id, user.name))


def _spent() -> ServiceError:
    return ServiceError("not_found", "This link has been used, or is too old. Ask for a new one.")
