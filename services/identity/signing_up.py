"""Signing up: an address is confirmed by a mailed link, and the account begins to exist when it is followed.

Until then name and password stand with the token of the link, each sign-up for itself: of several for one address the
one whose link is followed counts. To follow it is not enough: the password of that sign-up is asked for. Anybody can
sign up with an address that is not theirs; its owner would else make an account whose password a stranger knows.
Whoever signs up with an address that has an account is told nothing; its owner gets a mail that says so.
"""

from datetime import timedelta
from typing import cast

from sqlalchemy import text

from models.identity import OneTimeToken
from models.organizations import User
from rules.errors import ServiceError
from rules.ids import new_id
from services.core.unit_of_work import UnitOfWork
from services.identity import one_time_tokens, throttle
from services.identity.accounts import account_of, in_vain, normal, require_good
from services.mail.outbox import enqueue_mail

LINK_LIVES = timedelta(hours=24)
_WRONG = (
    "This is not the password that was chosen when this link was asked for. "
    "Try again, or sign up once more for a link and a password of your own."
)
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('sign-up ' || :email, 0))")


def sign_up(uow: UnitOfWork, name: str, email: str, password: str) -> None:
    """Mail a link that makes an account, or to somebody who has one how to sign in; who asks learns nothing of it.

    Raises `weak_password`, and `rate_limited` after 5 mails to an address, or 30 from one, within an hour.
    """
    with uow.dependencies.password_hasher.slot():
        email = normal(email)
        require_good(password, email)
        throttle.count(uow, "mail", account=email, address=uow.caller.address)
        with uow.outside_transaction():
            hashed = uow.dependencies.password_hasher.hash(password)
        web = uow.dependencies.web_url
        waiting = {"name": name.strip(), "passwordHash": hashed}
        if account_of(uow, email) is None:
            token = one_time_tokens.issue(uow, "verify_email", email, LINK_LIVES, details=waiting)
            enqueue_mail(uow, email, "verify_email", url=f"{web}/verify?token={token}")
            return
        with in_vain(uow):
            one_time_tokens.issue(uow, "verify_email", email, LINK_LIVES, details=waiting)
        enqueue_mail(uow, email, "known_address", sign_in_url=f"{web}/sign-in", forgot_url=f"{web}/forgot")


def verify_email(uow: UnitOfWork, token: str, password: str) -> User:
    """Make the account that a mailed link is for, by the password that was chosen at its sign-up.

    Raises `not_found` for a link that is used, unknown or too old; `wrong_credentials`, which leaves the link good; and
    `rate_limited` after 10 wrong passwords for an address, or 30 from one, sign-ins included, within 15 minutes.
    """
    with uow.dependencies.password_hasher.slot():
        known = one_time_tokens.look(uow, "verify_email", token)
        if known is None:
            raise _spent()
        stored = cast(str, known.details["passwordHash"])
        counted = throttle.count(uow, "sign_in", account=_confirming(known.subject), address=uow.caller.address)
        with uow.outside_transaction():
            right = uow.dependencies.password_hasher.verify(stored, password)
        if not right:
            raise ServiceError("wrong_credentials", _WRONG)
        uow.session.execute(_LOCK, {"email": known.subject})
        row = one_time_tokens.use(uow, "verify_email", token)
        if row is None or account_of(uow, row.subject) is not None:
            raise _spent()
        counted.forget()
        throttle.forget(uow, "sign_in", row.subject)
        return _begin(uow, row)


def _begin(uow: UnitOfWork, row: OneTimeToken) -> User:
    """Make the account, and every other link for its address worthless."""
    user = User(
        id=new_id("usr"),
        email=row.subject,
        name=cast(str, row.details["name"]),
        password_hash=cast(str, row.details["passwordHash"]),
        created_at=uow.now,
        email_verified_at=uow.now,
    )
    uow.session.add(user)
    row.details = {}
    one_time_tokens.void(uow, "verify_email", row.subject)
    uow.session.flush()
    return user


def _confirming(email: str) -> str:
    """Return what wrong passwords of links are counted for: no failed sign-in keeps an address from being confirmed."""
    return f"confirming {email}"


def _spent() -> ServiceError:
    return ServiceError("not_found", "This link has been used, or is too old. Sign up once more for a new one.")
