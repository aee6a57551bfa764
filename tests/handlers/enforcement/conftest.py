"""A repository with three branches, one of them watched: `web`; and the workers of the organisation."""

from collections.abc import Iterator

import pytest

from models.repositories import Repository
from tests.handlers.callers import Tenant
from tests.harness.app_key import AppKey
from tests.harness.github_harness import Harness, make_harness
from tests.harness.sessions import owner_session
from tools.fake_github import Handle


@pytest.fixture
def repository(acme: Tenant) -> Repository:
    """Return acme/web, enabled."""
    return acme.repository("web", "release/1", "release/2", auto_watch=["release/*"])


@pytest.fixture
def workers(acme: Tenant, served_fake_github: Handle, database: str, app_key: AppKey) -> Iterator[Harness]:
    """Return what does the jobs of acme, at the GitHub of the served product."""
    with owner_session(database) as session:
        yield make_harness(
            served_fake_github.github,
            served_fake_github.base_url,
            session=session,
            organization=acme.organization,
            database=database,
            app_private_key=app_key.private,
            webhook_secret="a secret of the webhooks",
        )
