"""A repository whose branch is enforced by one ruleset."""

import pytest

from tests.jobs.conftest import Builder, Town
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model.installations import register_app


@pytest.fixture
def web(town: Town, build: Builder) -> RepositoryBuilder:
    """Build a repository whose one branch is watched and required; another App is known there too."""
    build("web")
    register_app(town.host.world, 99, "another", None)
    return town.host.organization("acme").repository("web")
