"""A watched branch, a pull request into it, and a viewer."""

import pytest
from sqlalchemy.orm import Session

from models.pull_requests import PullRequest
from models.repositories import WatchedBranch
from tests import factories
from tests.handlers.callers import Caller, Tenant


@pytest.fixture
def main(acme: Tenant, session: Session) -> WatchedBranch:
    return factories.branch(session, acme.repository("web"))


@pytest.fixture
def viewer(acme: Tenant) -> Caller:
    return acme.person("viewer")


@pytest.fixture
def hotfix(session: Session, acme: Tenant, main: WatchedBranch) -> PullRequest:
    return factories.pull_request(session, session.get_one(type(acme.repository("other")), main.repository_id))
