"""What the operations of exceptions are asked about: a pull request into a frozen branch."""

import pytest
from sqlalchemy.orm import Session

from models.exceptions import PullRequestException
from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.callers import Tenant
from tests.handlers.exceptions.requests import requested


@pytest.fixture
def pull(session: Session, web: WatchedBranch, repository: Repository) -> PullRequest:
    """Return acme/web#7, into `main`."""
    return factories.pull_request(session, repository)


@pytest.fixture
def freeze(acme: Tenant, session: Session, web: WatchedBranch) -> Freeze:
    """Return a freeze of `main`."""
    return factories.freeze(session, acme.organization, [web])


@pytest.fixture
def pending(session: Session, freeze: Freeze, pull: PullRequest, web: WatchedBranch) -> PullRequestException:
    """Return a request by another person."""
    return requested(session, freeze, pull, web)
