"""Units of work of the database role `identity`, as the API opens them, with a clock that tests move."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.database import IDENTITY_ROLE, WORKER_ROLE
from models.organizations import User
from rules.access.access_tokens import AccessTokenSettings
from rules.access.permissions import ANONYMOUS
from rules.web_addresses import WebOrigin
from services.core.ports import Ports
from services.core.rotated_secrets import CursorSecret, SecretKey
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.passwords import HASHER, account
from tests.harness.wakeups import RecordedWakeups

UnitOfWorkOpener = Callable[[], AbstractContextManager[UnitOfWork]]


@pytest.fixture
def engine(database: str) -> Engine:
    return engine_of(database, IDENTITY_ROLE)


@pytest.fixture
def uow_factory(engine: Engine, clock: MovableClock, wakeups: RecordedWakeups) -> UnitOfWorkFactory:
    around = Ports(
        CursorSecret(b"a secret of the tests"),
        WebOrigin("https://app.example"),
        SecretKey(factories.SECRET_KEY.encode()),
        HASHER,
        AccessTokenSettings(issuer="https://app.example", audience="https://api.example"),
    )
    return UnitOfWorkFactory(engine, clock, wakeups, around)


@pytest.fixture
def uow(uow_factory: UnitOfWorkFactory) -> UnitOfWorkOpener:
    """Open a unit of work of a person who is not signed in, at 203.0.113.7."""
    return partial(uow_factory.open, Caller(None, ANONYMOUS, "dashboard", address="203.0.113.7", client="a browser"))


@pytest.fixture
def worker_units(database: str, clock: MovableClock, wakeups: RecordedWakeups) -> UnitOfWorkFactory:
    """Return units as the sweeper opens them."""
    ports = Ports(SecretKey(factories.SECRET_KEY.encode()))
    return UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, wakeups, ports)


@pytest.fixture
def eve(session: Session) -> User:
    """Make an account with the password PASSWORD."""
    user = account(session, "Eve")
    session.commit()
    return user
