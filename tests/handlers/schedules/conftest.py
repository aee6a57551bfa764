"""A branch that schedules cover, and a person who may create them."""

import pytest
from sqlalchemy.orm import Session

from models.repositories import WatchedBranch
from tests import factories
from tests.handlers.callers import Caller, Tenant


@pytest.fixture(autouse=True)
def web(acme: Tenant, session: Session) -> WatchedBranch:
    """Return the watched `main` of acme/web."""
    return factories.branch(session, acme.repository("web"))


@pytest.fixture
def member(acme: Tenant) -> Caller:
    return acme.person("member")
