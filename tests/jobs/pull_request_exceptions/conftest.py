"""A frozen branch, and the first pull request into it."""

import pytest

from tests.harness.github_harness import Builder, Harness
from tools.fake_github.model.records import PullRequest


@pytest.fixture
def freeze(harness: Harness, build: Builder) -> str:
    build("web")
    harness.run_until_idle()
    made = harness.freeze()
    harness.run_until_idle()
    return made


@pytest.fixture
def first(harness: Harness, freeze: str) -> PullRequest:
    return harness.fake_github.world.repository_named("acme/web").pulls[1]
