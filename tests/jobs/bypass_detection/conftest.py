"""Two pull requests into a branch whose rule can be passed by, and the ways to learn what lands there."""

import pytest

from tests.harness.github_harness import Builder, Harness
from tests.harness.webhook_queue import WebhookQueue, full_resync
from tests.jobs.bypass_detection.pushes import Clocks, Notice, Pushes, examine
from tests.jobs.conftest import EnterScene


@pytest.fixture
def clocks(harness: Harness) -> Clocks:
    return Clocks(harness)


@pytest.fixture
def webhook_queue(harness: Harness) -> WebhookQueue:
    return WebhookQueue(harness)


@pytest.fixture(params=["by webhook", "by the full resync, with every webhook lost"])
def notice(request: pytest.FixtureRequest, harness: Harness, webhook_queue: WebhookQueue) -> Notice:
    """Become aware of what has happened, and look into it."""

    def look() -> None:
        if request.param == "by webhook":
            webhook_queue.run()
        else:
            webhook_queue.take()
            full_resync(harness)
        examine(harness)

    return look


@pytest.fixture
def pushes(harness: Harness, build: Builder, clocks: Clocks, enter_scene: EnterScene) -> Pushes:

    def at_rest() -> None:
        build("web")
        for ruleset in harness.fake_github.world.rulesets.values():
            ruleset.bypass_actors = [
                {"actor_id": harness.fake_github.maintainer.id, "actor_type": "User", "bypass_mode": "always"}
            ]
        harness.run_until_idle()

    enter_scene(at_rest)
    clocks.pass_by()
    pulls = list(harness.record().pulls.values())
    return Pushes(harness, clocks, pulls)
