"""Units on a real database, as the API opens them: under row-level security, with a clock that tests move."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from models.organizations import Organization
from rules.access.permissions import Actor
from services.core.clock import whole_milliseconds
from services.core.unit_of_work import Caller, Dependencies, UnitOfWork, UnitOfWorkFactory
from tests import factories
from tests.harness.engines import engine_of, owner_engine_of

ADA = Actor("user", "usr_ada", "Ada")
Opener = Callable[[Organization], AbstractContextManager[UnitOfWork]]


class MovedClock:
    """The database's clock, moved by `ahead`."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def read(self, database_now: datetime) -> datetime:
        return whole_milliseconds(database_now + self.ahead)


class Listener:
    """Hears wake-ups instead of sending them."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def send(self, names: set[str]) -> None:
        self.heard += sorted(names)


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def engine(database: str) -> Engine:
    return engine_of(database)


@pytest.fixture
def uow_factory(engine: Engine, clock: MovedClock, listener: Listener) -> UnitOfWorkFactory:
    return UnitOfWorkFactory(engine, clock, listener, Dependencies(cursor_secret=b"a secret of the tests"))


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    """Open a session that sees everything, and commits when told to."""
    with Session(owner_engine_of(database), expire_on_commit=False) as session:
        yield session


@pytest.fixture
def acme(session: Session) -> Organization:
    organization = factories.organization(session)
    session.commit()
    return organization


@pytest.fixture
def unit_of(uow_factory: UnitOfWorkFactory) -> Opener:
    """Open a unit of an organisation, as Ada."""

    def open_unit(organization: Organization) -> AbstractContextManager[UnitOfWork]:
        return uow_factory.open(Caller(organization.id, ADA, "dashboard", organization.plan))

    return open_unit
