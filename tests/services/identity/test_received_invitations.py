"""Accepting an invitation: what becomes of its links, and just before and after it expires."""

from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from models.identity import Invitation
from models.organizations import Membership, Organization, User
from rules.access.invitations import LIFETIME
from rules.access.permissions import Actor
from rules.errors import ServiceError
from rules.ids import new_id
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.identity import one_time_tokens
from services.organizations import received_invitations
from tests import factories
from tests.harness.clock import MovableClock
from tests.services.identity.conftest import UnitOfWorkOpener

SECOND = timedelta(seconds=1)


@pytest.fixture
def acme(session: Session) -> Organization:
    return factories.organization(session)


@pytest.fixture
def invitation(session: Session, acme: Organization, eve: User) -> Invitation:
    return invite(session, acme, eve.email)


@pytest.fixture
def as_eve(uow_factory: UnitOfWorkFactory, eve: User) -> Caller:
    return Caller(None, Actor("user", eve.id, eve.name), "dashboard", user_id=eve.id)


def invite(session: Session, to: Organization, email: str) -> Invitation:
    now = factories.now()
    row = Invitation(
        id=new_id("inv"),
        organization_id=to.id,
        email=email,
        role="member",
        invited_by=factories.SYSTEM,
        created_at=now,
        expires_at=now + LIFETIME,
    )
    session.add(row)
    session.commit()
    return row


def issue(uow: UnitOfWorkOpener, invitation: Invitation) -> str:
    with uow() as opened:
        token: str = one_time_tokens.issue(opened, "invitation", invitation.id, LIFETIME)
        return token


def accept(uow_factory: UnitOfWorkFactory, caller: Caller, invitation: Invitation) -> None:
    with uow_factory.open(caller) as uow:
        received_invitations.accept(uow, invitation.id)


def is_valid(uow: UnitOfWork, token: str) -> bool:
    return one_time_tokens.peek(uow, "invitation", token) is not None


def test_accepted_invitation_invalidates_all_its_tokens(
    session: Session, uow: UnitOfWorkOpener, uow_factory: UnitOfWorkFactory, as_eve: Caller, invitation: Invitation
) -> None:
    tokens = [issue(uow, invitation) for _ in range(2)]
    accept(uow_factory, as_eve, invitation)
    with uow() as opened:
        assert [is_valid(opened, token) for token in tokens] == [False, False]
    assert session.get(Membership, (invitation.organization_id, as_eve.user_id)) is not None


@pytest.mark.parametrize(("early", "taken"), [(SECOND, True), (-SECOND, False)], ids=["a second before", "after"])
def test_invitation_is_valid_for_seven_days(
    session: Session,
    uow_factory: UnitOfWorkFactory,
    clock: MovableClock,
    as_eve: Caller,
    invitation: Invitation,
    early: timedelta,
    taken: bool,
) -> None:
    clock.offset = invitation.expires_at - factories.now() - early
    if taken:
        accept(uow_factory, as_eve, invitation)
    else:
        with pytest.raises(ServiceError, match="no longer pending"):
            accept(uow_factory, as_eve, invitation)
    assert (session.get(Membership, (invitation.organization_id, as_eve.user_id)) is not None) is taken
