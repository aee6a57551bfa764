"""Units on a real database, as the API opens them: under row-level security, with a clock that tests move."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from models.billing import grants_of_organizations
from models.organizations import Organization
from rules.access.permissions import Actor
from services.core.ports import Ports
from services.core.rotated_secrets import CursorSecret
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.mail import mailbox
from tests.harness.sessions import id_of, owner_session
from tests.harness.wakeups import RecordedWakeups
from tools.mailbox import Handle

ADA = Actor("user", "usr_ada", "Ada")
UnitOfWorkOpener = Callable[[Organization], AbstractContextManager[UnitOfWork]]


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def wakeups() -> RecordedWakeups:
    return RecordedWakeups()


@pytest.fixture
def engine(database: str) -> Engine:
    return engine_of(database)


@pytest.fixture
def uow_factory(engine: Engine, clock: MovableClock, wakeups: RecordedWakeups) -> UnitOfWorkFactory:
    return UnitOfWorkFactory(engine, clock, wakeups, Ports(CursorSecret(b"a secret of the tests")))


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    """Open a session that sees everything, and commits explicitly."""
    with owner_session(database) as session:
        yield session


@pytest.fixture
def acme(session: Session) -> Organization:
    organization = factories.organization(session)
    session.commit()
    return organization


@pytest.fixture
def unit_of(uow_factory: UnitOfWorkFactory, database: str) -> UnitOfWorkOpener:
    """Open a unit of an organisation, as Ada, in any thread."""

    def open_unit(organization: Organization) -> AbstractContextManager[UnitOfWork]:
        organization_id = id_of(organization)
        with owner_session(database) as session:
            grants = grants_of_organizations(session, [organization_id], "free")[organization_id]
        return uow_factory.open(Caller(organization_id, ADA, "dashboard", grants))

    return open_unit


@pytest.fixture
def box() -> Iterator[Handle]:
    """Return a mailbox that takes every mail."""
    with mailbox() as handle:
        yield handle
