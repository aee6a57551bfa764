"""What clients are told about a pull request and rules."""

from typing import Any

from rules.access.permissions import SYSTEM
from services.pull_requests.views import views
from services.repositories.tracked_pull_requests import TrackedPullRequest, select_tracked
from tests.harness.github_harness import Harness


def rules_of_pull(harness: Harness) -> list[dict[str, Any]]:
    """Return what the only pull request shows of each rule."""
    with harness.unit(SYSTEM, "api") as uow:
        rows = [TrackedPullRequest(*row) for row in uow.session.execute(select_tracked(uow))]
        [shown] = views(uow, rows)
    found: list[dict[str, Any]] = shown["exception_rules"]
    return found
