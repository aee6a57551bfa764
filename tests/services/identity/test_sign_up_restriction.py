"""The restriction of new accounts: at the sign-up, and when the mailed link is followed."""

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models.organizations import Organization, User
from rules.access.sign_up import SignUpPolicy
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWorkFactory
from services.identity import one_time_tokens, registration
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.passwords import PASSWORD, hash_password
from tests.services.identity.conftest import UnitOfWorkOpener

INVITED, OUTSIDE, INSIDE = "grace@example.com", "mallory@example.com", "ada@acme.example"
BY_INVITATION, BY_DOMAIN = SignUpPolicy("invitation"), SignUpPolicy("domain", ("acme.example",))
RESTRICTIONS = pytest.mark.parametrize("policy", [BY_INVITATION, BY_DOMAIN], ids=["invitation", "domain"])


def restrict(uow_factory: UnitOfWorkFactory, policy: SignUpPolicy) -> None:
    uow_factory.ports = uow_factory.ports.having(policy)


def sign_up(uow: UnitOfWorkOpener, email: str, invitation_token: str | None = None) -> str:
    """Return `mailed`, or the code and message of a refusal."""
    try:
        with uow() as opened:
            registration.sign_up(opened, "Eve", email, PASSWORD, invitation_token)
    except ServiceError as error:
        return f"{error.code}: {error.message}"
    return "mailed"


def follow_link(uow: UnitOfWorkOpener, email: str) -> str:
    """Follow the link of an earlier sign-up; return `created`, or the code of a refusal."""
    details = {"name": "Eve", "passwordHash": hash_password(PASSWORD)}
    with uow() as opened:
        link = one_time_tokens.issue(opened, "verify_email", email, registration.LINK_LIFETIME, details=details)
    try:
        with uow() as opened:
            registration.verify_email(opened, link, PASSWORD)
    except ServiceError as error:
        return error.code
    return "created"


@RESTRICTIONS
def test_restriction_does_not_reveal_accounts_or_invitations(
    policy: SignUpPolicy,
    uow: UnitOfWorkOpener,
    uow_factory: UnitOfWorkFactory,
    session: Session,
    eve: User,
    acme: Organization,
) -> None:
    factories.invitation(session, acme, INVITED)
    session.commit()
    restrict(uow_factory, policy)
    [answer] = {sign_up(uow, email) for email in (eve.email, INVITED, OUTSIDE)}
    assert answer.startswith("sign_up_restricted: Accounts are for ")


def test_address_of_a_domain_may_sign_up(uow: UnitOfWorkOpener, uow_factory: UnitOfWorkFactory) -> None:
    restrict(uow_factory, BY_DOMAIN)
    assert sign_up(uow, " Ada@ACME.example ") == "mailed"
    assert follow_link(uow, INSIDE) == "created"
    restrict(uow_factory, BY_INVITATION)
    assert sign_up(uow, INSIDE).startswith("sign_up_restricted")


@RESTRICTIONS
def test_invitation_permits_the_sign_up_of_its_address_alone(
    policy: SignUpPolicy, uow: UnitOfWorkOpener, uow_factory: UnitOfWorkFactory, session: Session, acme: Organization
) -> None:
    token, _ = factories.invitation(session, acme, INVITED)
    session.commit()
    restrict(uow_factory, policy)
    assert sign_up(uow, OUTSIDE, token).startswith("sign_up_restricted")
    assert sign_up(uow, INVITED, "a token of nothing").startswith("sign_up_restricted")
    assert sign_up(uow, INVITED, token) == "mailed"
    assert follow_link(uow, INVITED) == "created"


@pytest.mark.parametrize("why", ["revoked", "expired", "deleted"])
def test_invitation_that_is_no_longer_pending_permits_nothing(
    why: str,
    uow: UnitOfWorkOpener,
    uow_factory: UnitOfWorkFactory,
    session: Session,
    acme: Organization,
    clock: MovableClock,
) -> None:
    token, invitation = factories.invitation(session, acme, INVITED)
    if why == "revoked":
        invitation.revoked_at = factories.now()
    elif why == "deleted":
        acme.deleted_at = factories.now()
    else:
        clock.offset += 2 * (invitation.expires_at - invitation.created_at)
    session.commit()
    restrict(uow_factory, BY_INVITATION)
    assert sign_up(uow, INVITED, token).startswith("sign_up_restricted")
    assert follow_link(uow, INVITED) == "sign_up_restricted"


def test_restriction_that_began_after_the_sign_up_prevents_the_account(
    uow: UnitOfWorkOpener, uow_factory: UnitOfWorkFactory, session: Session
) -> None:
    assert sign_up(uow, OUTSIDE) == "mailed", "everybody may sign up by default"
    restrict(uow_factory, BY_DOMAIN)
    assert follow_link(uow, OUTSIDE) == "sign_up_restricted"
    assert session.scalar(select(func.count()).select_from(User)) == 0
    restrict(uow_factory, SignUpPolicy())
    assert follow_link(uow, OUTSIDE) == "created"
