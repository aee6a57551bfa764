"""The post of a town."""

import pytest

from tests.harness.webhook_queue import Post, work
from tests.jobs.conftest import Builder, Town


@pytest.fixture
def post(town: Town, build: Builder) -> Post:
    """Return the post of a town with two repositories, of two pull requests each, whose heads are green."""
    build("api", "web")
    town.sql("UPDATE repositories SET auto_watch = '{release/*}' WHERE name = 'web'")
    work(town)
    return Post(town)
