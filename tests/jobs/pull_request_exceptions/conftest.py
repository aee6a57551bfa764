"""A frozen branch, and the first pull request into it."""

import pytest

from tests.harness.github_harness import Builder, Harness
from tests.jobs.conftest import EnterScene
from tools.fake_github.model.records import PullRequest


@pytest.fixture
def freeze(harness: Harness, build: Builder, enter_scene: EnterScene) -> str:
    def at_rest() -> None:
        build("web")
        harness.run_until_idle()
        harness.freeze()
        harness.run_until_idle()

    enter_scene(at_rest)
    [(made,)] = harness.sql("SELECT id FROM freezes")
    return str(made)


@pytest.fixture
def first(harness: Harness, freeze: str) -> PullRequest:
    return harness.record().pulls[1]
