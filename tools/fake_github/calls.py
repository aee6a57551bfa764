"""Counters of calls, and the verdicts that were written."""

import time
from collections import Counter
from typing import Any

from tools.fake_github.model.world import Event

KEPT_WRITES = 200_000


class Calls:
    """What was called since the last reset."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin again."""
        self.by_operation: Counter[str] = Counter()
        self.by_root_field: Counter[str] = Counter()
        self.by_status: Counter[int] = Counter()
        self.by_caller: Counter[str] = Counter()
        self.writes: list[dict[str, Any]] = []
        self.total = 0
        self.in_flight = 0

    def began(self, operation: str) -> None:
        """Count a call that has come in."""
        self.total += 1
        self.by_operation[operation] += 1
        self.in_flight += 1

    def identified(self, caller: str, operation: str) -> None:
        """Count a call by who made it."""
        self.by_caller[f"{caller}: {operation}"] += 1

    def ended(self, status: int) -> None:
        """Count an answer; status 0 is none."""
        self.in_flight -= 1
        self.by_status[status] += 1

    def receive(self, event: Event) -> None:
        """Record the verdict if the event says that one was written."""
        if event.name != "check_run" or event.action not in {"created", "completed"}:
            return
        run = event.facts["run"]
        if event.action == "created" and run.status == "completed":
            return  # its "completed" follows
        repository = event.repository
        assert repository is not None
        if len(self.writes) < KEPT_WRITES:
            self.writes.append(
                {
                    "repositoryId": repository.id,
                    "headSha": run.head_sha,
                    "name": run.name,
                    "appId": run.app_id,
                    "checkRunId": run.id,
                    "status": run.status,
                    "conclusion": run.conclusion,
                    "summary": run.output.get("summary"),
                    "externalId": run.external_id,
                    "at": run.completed_at or run.started_at,
                    "receivedAt": time.time(),  # epoch seconds, with the fraction that `at` lacks
                }
            )

    def as_json(self) -> dict[str, Any]:
        """Return all counters."""
        return {
            "total": self.total,
            "byOperation": dict(self.by_operation),
            "byRootField": dict(self.by_root_field),
            "byStatus": {str(status): count for status, count in self.by_status.items()},
        }
