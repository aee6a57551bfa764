"""Sign-up: a mailed link confirms the address, and the account is created when the link is followed.

Until then name and password are stored with the token of the link, separately for each sign-up. Following the link is
not enough: the password of that sign-up must be entered too. Otherwise a stranger could sign up with an address that is
not theirs, and its owner would create an account with a password that a stranger knows. A sign-up with the address of
an existing account gets the same response; the owner gets a mail that explains it.
"""

from datetime import timedelta
from typing import cast

from models.organizations import User
from rules.errors import ServiceError
from rules.ids import new_id
from rules.web_addresses import FORGOT, SIGN_IN, VERIFY, WebOrigin
from services.core.password_hashing import PasswordHasher
from services.core.unit_of_work import UnitOfWork
from services.identity import one_time_tokens, throttle
from services.identity.accounts import dummy_work, find_account, lock_address, normalize_email, require_strong_password
from services.identity.sign_up_restriction import require_permitted, require_still_permitted
from services.mail.outbox import enqueue_mail

LINK_LIFETIME = timedelta(hours=24)
_INCORRECT = (
    "Incorrect password. Enter the password that you chose when you requested this link, "
    "or sign up again to get a new link."
)


def sign_up(uow: UnitOfWork, name: str, email: str, password: str, invitation_token: str | None = None) -> None:
    """Mail a link that creates an account, or a notice if the account exists; the response is the same.

    Raise `sign_up_restricted` if neither the policy nor the invitation permits it; `weak_password`; and `rate_limited`
    after 5 mails to an address from one network address, 20 to an address, or 30 from a network address, in an hour.
    """
    hasher = uow.ports[PasswordHasher]
    with hasher.slot(throttle.network_of(uow.caller.address)):
        email = normalize_email(email)
        require_permitted(uow, email, invitation_token)
        require_strong_password(password, email)
        throttle.count_attempt(uow, "sign_up", account=email, address=uow.caller.address)
        with uow.outside_transaction():
            hashed = hasher.hash(password)
        web = uow.ports[WebOrigin].url
        details = {"name": name.strip(), "passwordHash": hashed}
        if find_account(uow, email) is None:
            token = one_time_tokens.issue(uow, "verify_email", email, LINK_LIFETIME, details=details)
            enqueue_mail(uow, email, "verify_email", url=f"{web}{VERIFY}?token={token}")
            return
        with dummy_work(uow):
            one_time_tokens.issue(uow, "verify_email", email, LINK_LIFETIME, details=details)
        enqueue_mail(uow, email, "known_address", sign_in_url=web + SIGN_IN, forgot_url=web + FORGOT)


def verify_email(uow: UnitOfWork, token: str, password: str) -> User:
    """Create the account of a mailed link, given the password of its sign-up.

    Raise `not_found` if the link is used, unknown or expired; `wrong_credentials`, after which the link stays valid;
    `sign_up_restricted` if the policy has changed or the invitation has been revoked meanwhile;
    and `rate_limited` after 10 wrong passwords for an address, or 30 from a network address, within 15 minutes.
    """
    hasher = uow.ports[PasswordHasher]
    with hasher.slot(throttle.network_of(uow.caller.address)):
        link = one_time_tokens.peek(uow, "verify_email", token)
        if link is None:
            raise _expired_link()
        email, stored = link.subject, cast(str, link.details["passwordHash"])
        # Under a name of its own: wrong passwords of links do not use up the attempts to sign in.
        counted = throttle.count_attempt(uow, "sign_in", account=f"confirming {email}", address=uow.caller.address)
        with uow.outside_transaction():
            right = hasher.verify(stored, password)
        if not right:
            raise ServiceError("wrong_credentials", _INCORRECT)
        require_still_permitted(uow, email)
        lock_address(uow, email)
        link = one_time_tokens.consume(uow, "verify_email", token)
        if link is None or find_account(uow, email) is not None:
            raise _expired_link()
        counted.reset()
        throttle.reset(uow, "sign_in", email)
        name, hashed = cast(str, link.details["name"]), cast(str, link.details["passwordHash"])
        link.details = {}
        return create_account(uow, email, name, hashed)


def create_account(uow: UnitOfWork, email: str, name: str, password_hash: str) -> User:
    """Create the account of a confirmed address, and invalidate all links that would create one.

    The caller holds the lock of the address, `lock_address`.
    """
    user = User(
        id=new_id("usr"),
        email=email,
        name=name,
        password_hash=password_hash,
        created_at=uow.now,
        email_verified_at=uow.now,
    )
    uow.session.add(user)
    one_time_tokens.invalidate(uow, "verify_email", email)
    uow.session.flush()
    return user


def _expired_link() -> ServiceError:
    return ServiceError("not_found", "This link is invalid or has expired. Sign up again to get a new one.")
