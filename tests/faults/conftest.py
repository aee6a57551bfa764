"""The harness of `tests/jobs`: an organisation at the simulated GitHub, and a reconciler between the two."""

import pytest

from tests.harness.github_harness import Builder, Harness
from tests.harness.webhook_queue import WebhookQueue, work
from tests.jobs.conftest import EnterScene, build, enter_scene, fake_github, harness, scenes

__all__ = ["build", "enter_scene", "fake_github", "harness", "scenes"]


@pytest.fixture
def webhook_queue(harness: Harness, build: Builder, enter_scene: EnterScene) -> WebhookQueue:
    """Return the silent webhook queue of a harness with two repositories of one green pull request each."""

    def at_rest() -> None:
        build("api", "web", pulls=1)
        work(harness)

    enter_scene(at_rest)
    return WebhookQueue(harness)
