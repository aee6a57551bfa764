"""A suspension of the App during a freeze: what is written stays, what is not waits, and goes on at once after it."""

import pytest

from rules.freezes.blocking import ENFORCED
from tests.harness.github_harness import Builder, Harness
from tests.harness.people import suspend
from tests.harness.webhook_queue import WebhookQueue, disagreements, work


@pytest.fixture
def webhook_queue(harness: Harness, build: Builder) -> WebhookQueue:
    """Return the webhooks of two repositories with rules that require our check, and a pull request each."""
    build("api", "web", pulls=1)
    work(harness)
    harness.read_rules()
    return WebhookQueue(harness)


@pytest.mark.parametrize("delivered", [True, False])
def test_suspension_keeps_what_is_written_and_names_what_waits(
    harness: Harness, webhook_queue: WebhookQueue, delivered: bool
) -> None:
    harness.freeze({"type": "repositories", "repositories": ["acme/api"]})
    work(harness)
    suspend(harness, suspended=True)
    if delivered:
        webhook_queue.run()
    freeze = harness.freeze()
    work(harness)
    found = harness.show(freeze)
    [gap] = [each for each in found["gaps"] if each["state"] == "not_blocked"]
    assert (gap["code"], gap["branch_count"]) == ("suspended", 1)
    assert "Unsuspend it at GitHub" in gap["message"]
    assert found["by_repository"]["acme/api"]["blocking"]["state"] in ENFORCED
    waiting = found["by_repository"]["acme/web"]["blocking"]
    assert (waiting["state"], waiting["gaps"]) == ("not_blocked", ["suspended"])
    assert harness.merge("acme/api", 1).status_code == 405
    suspend(harness, suspended=False)
    webhook_queue.run()
    assert disagreements(harness) == {}
    found = harness.show(freeze)
    assert {row["blocking"]["state"] for row in found["by_repository"].values()} <= ENFORCED
    assert found["enforced_at"] is not None
    assert harness.merge("acme/web", 1).status_code == 405


def test_branch_that_met_the_suspension_names_it_as_its_error(harness: Harness, webhook_queue: WebhookQueue) -> None:
    suspend(harness, suspended=True)
    freeze = harness.freeze()
    harness.run_until_idle()
    error = harness.show(freeze)["by_repository"]["acme/web"]["last_error"]
    assert error["code"] == "installation_suspended"
    assert "unsuspend" in error["message"]
    assert harness.sql("SELECT state FROM installations") == [("suspended",)]
