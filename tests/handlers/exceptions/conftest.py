"""A pull request and the freeze that forbids it."""

import pytest

from models.freezes import Freeze
from models.pull_requests import PullRequest
from models.repositories import Repository, WatchedBranch
from tests.handlers.callers import Tenant
from tests.handlers.exceptions.requests import FrozenPull


@pytest.fixture
def case(acme: Tenant, repository: Repository, web: WatchedBranch, freeze: Freeze, pull: PullRequest) -> FrozenPull:
    return FrozenPull(acme, repository, web, freeze, pull)
