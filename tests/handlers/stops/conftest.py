"""A freeze with many open pull requests, in a repository in which the App may write rulesets."""

import pytest

from tests.handlers.blocking.claims import Frozen
from tests.handlers.blocking.conftest import clocks, frozen
from tests.handlers.stops.requests import Stopped
from tests.harness.github_harness import Harness
from tests.jobs.bypass_detection.pushes import Clocks
from tests.jobs.setup.requests import AUTHORIZED

__all__ = ["clocks", "frozen"]
OPEN = 26
"""More than `GitHubLimits.stop_above`."""


@pytest.fixture
def stopped(frozen: Frozen, workers: Harness, clocks: Clocks) -> Stopped:
    """Return acme/web, in which so many pull requests are open that a freeze of it is stopped."""
    frozen.repository("web", rule=True, **AUTHORIZED)
    built = frozen.acme.host.organization("acme").repository("web")
    pulls = [built.pull_request(base="main").number for _ in range(OPEN - 1)]
    frozen.settle()
    return Stopped(frozen, workers, clocks, pulls[0])
