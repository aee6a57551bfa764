"""What lands on frozen branches in tests, and what is reported of it."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from services.bypass_detection.detection import detect_bypasses
from tests.harness.clock import MovableClock
from tests.harness.github_harness import Harness
from tests.harness.webhook_queue import full_resync
from tools.fake_github.model.records import PullRequest

MAIN = "refs/heads/main"
CHECK = "change-freeze/main"
ACTIVITY = "GET /repos/{owner}/{repo}/activity"
Notice = Callable[[], None]


class Clocks:
    """The clocks of GitHub and of the database, moved together."""

    def __init__(self, harness: Harness) -> None:
        self.harness, self.moved = harness, MovableClock()
        harness.uow_factory.clock = harness.jobs.clock = self.moved
        harness.fake_github.world.clock = lambda: datetime.now(UTC) + self.moved.offset

    def pass_by(self, **time: float) -> None:
        """Let time pass, by default two seconds: enough for a distinct second."""
        self.moved.offset += timedelta(**(time or {"seconds": 2}))

    def stand_still(self) -> None:
        """Let everything at GitHub happen within one second from now on."""
        instant = self.harness.fake_github.world.clock()
        self.harness.fake_github.world.clock = lambda: instant


def examine(harness: Harness) -> None:
    turns = 0
    while detect_bypasses(harness.jobs, harness.github):
        turns += 1
        assert turns < 20, "a push is looked into again and again"


def frozen(harness: Harness, clocks: Clocks) -> str:
    """Freeze everything, and let every head show it."""
    freeze = harness.freeze()
    clocks.pass_by()
    harness.run_until_idle()
    clocks.pass_by()
    return freeze


def merge(harness: Harness, pull: PullRequest) -> str:
    answer = harness.merge("acme/web", pull.number)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["sha"])


def push(harness: Harness, name: str = "a.txt") -> str:
    body = {"message": name, "content": base64.b64encode(b"now").decode(), "branch": "main"}
    answer = harness.person("PUT", f"/repos/acme/web/contents/{name}", body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["commit"]["sha"])


def shown(harness: Harness) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the audit entries of bypasses: action, actor, details."""
    query = "SELECT action, actor ->> 'name', details, actor ->> 'type', source, target FROM audit_entries"
    rows = harness.sql(f"{query} WHERE details ? 'commit' ORDER BY at, id")
    assert all((row[3], row[4], row[5]["name"]) == ("code_host", "code_host", "acme/web:main") for row in rows)
    return [(row[0], row[1], row[2]) for row in rows]


def items(harness: Harness) -> list[tuple[str, str]]:
    query = "SELECT type, severity FROM attention_items WHERE cleared_at IS NULL ORDER BY since, id"
    return [(row[0], row[1]) for row in harness.sql(query)]


def looks(harness: Harness) -> int:
    return int(harness.fake_github.calls.by_operation[ACTIVITY])


@dataclass(frozen=True, slots=True)
class Pushes:
    """Two green pull requests into acme/web main, whose rules the maintainer can pass by."""

    harness: Harness
    clocks: Clocks
    pulls: list[PullRequest]

    def freeze(self) -> str:
        return frozen(self.harness, self.clocks)

    def merge(self, place: int) -> str:
        return merge(self.harness, self.pulls[place])

    def push(self) -> str:
        return push(self.harness)

    def learn(self) -> None:
        """Become aware of what has happened by the resync, and look into it."""
        full_resync(self.harness)
        examine(self.harness)

    def shown(self) -> list[tuple[str, str, dict[str, Any]]]:
        return shown(self.harness)

    def items(self) -> list[tuple[str, str]]:
        return items(self.harness)
