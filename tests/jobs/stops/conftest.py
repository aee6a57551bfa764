"""A repository with open pull requests that show `success`, in which the App may write rulesets."""

import pytest

from tests.harness.github_harness import Harness
from tests.harness.webhook_queue import WebhookQueue
from tests.jobs.conftest import EnterScene
from tests.jobs.frozen_branches.requests import settle
from tests.jobs.probes.requests import look
from tests.jobs.setup.requests import done
from tests.jobs.stops.requests import MANY, stop_from


@pytest.fixture
def web(harness: Harness, enter_scene: EnterScene) -> Harness:
    """Return a harness with acme/web, where two branches have two open pull requests each."""
    stop_from(harness)
    enter_scene(lambda: _at_rest(harness))
    return harness


def _at_rest(harness: Harness) -> None:
    done(harness, "web", branches=("main", "next"), pulls=2)
    look(harness)
    settle(harness)


@pytest.fixture
def many(harness: Harness, enter_scene: EnterScene) -> Harness:
    """Return a harness with many repositories of acme, `web` among them, with an open pull request into each branch."""
    stop_from(harness)
    enter_scene(lambda: _many_at_rest(harness))
    return harness


def _many_at_rest(harness: Harness) -> None:
    done(harness, *MANY, branches=("main", "next"))
    look(harness)
    settle(harness)


@pytest.fixture
def webhooks(many: Harness) -> WebhookQueue:
    """Return the webhooks about these repositories that GitHub sends from now on."""
    found = WebhookQueue(many)
    found.take()
    return found
