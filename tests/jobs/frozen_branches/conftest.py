"""A repository in which the App may write rulesets, and every branch has a rule of its own."""

import pytest

from tests.harness.github_harness import Harness
from tests.jobs.conftest import EnterScene
from tests.jobs.frozen_branches.requests import settle
from tests.jobs.probes.requests import look
from tests.jobs.setup.requests import done


@pytest.fixture
def web(harness: Harness, enter_scene: EnterScene) -> Harness:
    """Return a harness with acme/web, whose branches `main`, `next` and `old` are watched and not frozen."""

    def at_rest() -> None:
        done(harness, "web", branches=("main", "next", "old"), pulls=0)
        look(harness)
        settle(harness)
        assert harness.sql("SELECT DISTINCT light FROM branch_enforcement") == [("green",)]

    enter_scene(at_rest)
    return harness
