"""Workers that share the clock of the product, and GitHub's with them."""

import pytest

from tests.handlers.blocking.claims import Frozen
from tests.handlers.callers import Tenant
from tests.harness.clock import MovableClock
from tests.harness.github_harness import Harness
from tests.jobs.bypass_detection.pushes import Clocks


@pytest.fixture
def clocks(workers: Harness, clock: MovableClock) -> Clocks:
    """Move the clocks of the product, of its workers and of GitHub together."""
    found = Clocks(workers)
    found.moved = workers.uow_factory.clock = workers.jobs.clock = clock
    return found


@pytest.fixture
def frozen(acme: Tenant, workers: Harness) -> Frozen:
    """Return acme, in which nothing is watched yet."""
    return Frozen(acme, workers)
