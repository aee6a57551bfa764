"""The webhook queue of a harness."""

import pytest

from tests.harness.github_harness import Builder, Harness
from tests.harness.webhook_queue import WebhookQueue, work


@pytest.fixture
def webhook_queue(harness: Harness, build: Builder) -> WebhookQueue:
    """Return the webhook queue of a harness with two repositories, of two pull requests each, whose heads are green."""
    build("api", "web")
    harness.sql("UPDATE repositories SET auto_watch = '{release/*}' WHERE name = 'web'")
    work(harness)
    return WebhookQueue(harness)
