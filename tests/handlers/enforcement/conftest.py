"""A repository with three branches, one of them watched."""

import pytest
from sqlalchemy.orm import Session

from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.callers import Tenant


@pytest.fixture
def web(acme: Tenant) -> Repository:
    """Return an enabled repository."""
    return acme.repository("web", "release/1", "release/2", auto_watch=["release/*"])


@pytest.fixture
def main(session: Session, web: Repository) -> WatchedBranch:
    """Return its watched branch."""
    return factories.branch(session, web)
