"""A repository with three branches, one of them watched: `web`."""

import pytest

from models.repositories import Repository
from tests.handlers.callers import Tenant


@pytest.fixture
def repository(acme: Tenant) -> Repository:
    """Return acme/web, enabled."""
    return acme.repository("web", "release/1", "release/2", auto_watch=["release/*"])
