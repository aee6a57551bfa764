"""A frozen branch, and the first pull request into it."""

import pytest

from tests.jobs.conftest import Builder, Town
from tools.fake_github.model.records import PullRequest


@pytest.fixture
def freeze(town: Town, build: Builder) -> str:
    build("web")
    town.settle()
    made = town.freeze()
    town.settle()
    return made


@pytest.fixture
def first(town: Town, freeze: str) -> PullRequest:
    return town.host.world.repository_named("acme/web").pulls[1]
