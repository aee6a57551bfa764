"""What lands on frozen branches in tests, and what is told of it."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from services.bypass_detection.detection import detect_bypasses
from tests.jobs.conftest import Town
from tests.services.conftest import MovedClock
from tools.fake_github.model.checks import create_check_run
from tools.fake_github.model.records import PullRequest, Repository
from tools.fake_github.model.world import Actor

MAIN = "refs/heads/main"
CHECK = "change-freeze/main"
ACTIVITY = "GET /repos/{owner}/{repo}/activity"
Notice = Callable[[], None]


class Clocks:
    """The clocks of the code host and of the database, moved together."""

    def __init__(self, town: Town) -> None:
        self.town, self.moved = town, MovedClock()
        town.uow_factory.clock = town.jobs.clock = self.moved
        town.host.world.clock = lambda: datetime.now(UTC) + self.moved.ahead

    def pass_by(self, **time: float) -> None:
        """Let time pass, by default two seconds: enough to tell before from after."""
        self.moved.ahead += timedelta(**(time or {"seconds": 2}))

    def stand_still(self) -> None:
        """Let everything at the code host happen within one second from now on."""
        instant = self.town.host.world.clock()
        self.town.host.world.clock = lambda: instant


def examine(town: Town) -> None:
    turns = 0
    while detect_bypasses(town.jobs, town.github):
        turns += 1
        assert turns < 20, "a push is looked into again and again"


def frozen(town: Town, clocks: Clocks) -> str:
    """Freeze everything, and let every head show it."""
    freeze = town.freeze()
    clocks.pass_by()
    town.settle()
    clocks.pass_by()
    return freeze


def merge(town: Town, pull: PullRequest) -> str:
    answer = town.merge("acme/web", pull.number)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["sha"])


def push(town: Town, name: str = "a.txt") -> str:
    body = {"message": name, "content": base64.b64encode(b"now").decode(), "branch": "main"}
    answer = town.person("PUT", f"/repos/acme/web/contents/{name}", body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["commit"]["sha"])


def report(town: Town, sha: str, conclusion: str) -> None:
    """Have the App write a check, as a worker does that was held up."""
    host = town.host
    actor = Actor(host.world.accounts[host.app.bot_id], host.app_id)
    fields = {"name": CHECK, "head_sha": sha, "conclusion": conclusion}
    create_check_run(host.world, actor, host.app_id, repository(town), fields)


def repository(town: Town) -> Repository:
    return town.host.world.repository_named("acme/web")


def told(town: Town) -> list[tuple[str, str, dict[str, Any]]]:
    """Return what the audit tells of landings: action, who, details."""
    query = "SELECT action, actor ->> 'name', details, actor ->> 'type', source, target FROM audit_entries"
    rows = town.sql(f"{query} WHERE details ? 'commit' ORDER BY at, id")
    assert all((row[3], row[4], row[5]["name"]) == ("code_host", "code_host", "acme/web:main") for row in rows)
    return [(row[0], row[1], row[2]) for row in rows]


def items(town: Town) -> list[tuple[str, str]]:
    query = "SELECT type, severity FROM attention_items WHERE cleared_at IS NULL ORDER BY since, id"
    return [(row[0], row[1]) for row in town.sql(query)]


def looks(town: Town) -> int:
    return int(town.host.calls.by_operation[ACTIVITY])
