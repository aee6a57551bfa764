"""A repository that watches the branches of a pattern, with rules that a setup has written."""

import pytest

from tests.harness.github_harness import Harness
from tests.jobs.branches_of_a_pattern.requests import FROZEN, OPEN
from tests.jobs.conftest import EnterScene
from tests.jobs.probes.requests import look
from tests.jobs.setup.requests import done


@pytest.fixture
def releases(harness: Harness, enter_scene: EnterScene) -> Harness:
    """Return a harness whose repository watches `release/*`, with rules that a setup has written."""

    def at_rest() -> None:
        done(harness, "web", branches=("main", FROZEN, OPEN), pulls=0, auto_watch=["release/*"])
        look(harness)
        assert harness.sql("SELECT DISTINCT light FROM branch_enforcement") == [("green",)]

    enter_scene(at_rest)
    return harness
