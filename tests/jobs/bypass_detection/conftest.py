"""Two pull requests into a branch whose rule can be passed by, and the ways to hear of what lands there."""

import pytest

from tests.harness.webhook_queue import Post, look_everywhere
from tests.jobs.bypass_detection.pushes import Clocks, Notice, examine
from tests.jobs.conftest import Builder, Town
from tools.fake_github.model.records import PullRequest


@pytest.fixture
def clocks(town: Town) -> Clocks:
    return Clocks(town)


@pytest.fixture
def post(town: Town) -> Post:
    return Post(town)


@pytest.fixture(params=["by webhook", "by the full pass, with every webhook lost"])
def notice(request: pytest.FixtureRequest, town: Town, post: Post) -> Notice:
    """Become aware of what has happened, and look into it."""

    def look() -> None:
        if request.param == "by webhook":
            post.run()
        else:
            post.take()
            look_everywhere(town)
        examine(town)

    return look


@pytest.fixture
def web(town: Town, build: Builder, clocks: Clocks) -> list[PullRequest]:
    """Two green pull requests into acme/web main, whose rules the maintainer can pass by."""
    pulls = build("web")
    for ruleset in town.host.world.rulesets.values():
        ruleset.bypass_actors = [{"actor_id": town.host.maintainer.id, "actor_type": "User", "bypass_mode": "always"}]
    town.settle()
    clocks.pass_by()
    return pulls
