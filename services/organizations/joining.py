"""Joining by the mailed link of an invitation: it proves the mailbox, so that account and membership begin at once.

It only ever creates an account. Whoever has one signs in to accept, so that no link gives access to an account that
exists. Units of work of this module use the database role `identity`.
"""

from rules.errors import ServiceError
from services.core.password_hashing import PasswordHasher
from services.core.unit_of_work import UnitOfWork
from services.identity import sessions, throttle
from services.identity.accounts import find_account, lock_address, require_strong_password
from services.identity.registration import create_account
from services.identity.sessions import SignedIn
from services.organizations.received_invitations import accept_as, find_joinable


def join(uow: UnitOfWork, token: str, name: str, password: str) -> SignedIn:
    """Create the account of an invited address, make it a member, and start its session.

    The token stops working with all other links to the invitation. Raise `invitation_not_found` for any token that does
    not prove the mailbox or whose invitation is not pending, `already_exists` if the address has an account, and
    `weak_password`.
    """
    hasher = uow.ports[PasswordHasher]
    with hasher.slot(throttle.network_of(uow.caller.address)):
        email = find_joinable(uow, token).email
        require_strong_password(password, email)
        with uow.outside_transaction():
            hashed = hasher.hash(password)
        lock_address(uow, email)
        invitation = find_joinable(uow, token)
        if find_account(uow, email) is not None:
            raise ServiceError("already_exists", f"{email} has an account. Sign in to accept the invitation.")
        user = create_account(uow, email, name.strip(), hashed)
        throttle.reset(uow, "sign_in", email)
        _, organization = accept_as(uow, user, invitation.id)
        return sessions.start(uow, user, organization_id=organization.id)
