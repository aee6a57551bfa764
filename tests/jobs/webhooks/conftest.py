"""The webhook queue of a harness, and GitHub's log of webhooks."""

import pytest

from tests.harness.github_harness import Builder, Harness
from tests.harness.webhook_queue import WebhookQueue, work
from tests.jobs.conftest import EnterScene
from tests.jobs.webhooks.log_readings import Log


@pytest.fixture
def webhook_queue(harness: Harness, build: Builder, enter_scene: EnterScene) -> WebhookQueue:
    """Return the webhook queue of a harness with two repositories, of two pull requests each, whose heads are green."""

    def at_rest() -> None:
        build("api", "web")
        harness.sql("UPDATE repositories SET auto_watch = '{release/*}' WHERE name = 'web'")
        work(harness)

    enter_scene(at_rest)
    return WebhookQueue(harness)


@pytest.fixture
def log(harness: Harness, build: Builder, enter_scene: EnterScene) -> Log:
    """Return the log of a world at rest."""

    def at_rest() -> None:
        build("web", "api")
        work(harness)
        harness.read_rules()
        work(harness)

    enter_scene(at_rest)
    return Log(harness)
