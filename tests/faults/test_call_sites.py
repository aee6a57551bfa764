"""I3 at every call site in turn: whatever fails, no `success` reaches what is blocked, and trying again heals all.

One pass has failures and successes to send, again and again, while people push: once because `acme/api` is frozen and
`acme/web` is freed, and once because two pull requests into a frozen branch swap their exception. One of its calls to
GitHub fails, or its connection to the database dies at one of its statements; then what was freed is blocked again.
This is repeated for the first, the second, … until a pass had no such call any more.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import DBAPIError

from integrations.github import GitHub
from services.pull_request_exceptions.expiry import end_exceptions
from tests.harness.github_harness import Builder, Harness
from tests.harness.people import push_to_head
from tests.harness.webhook_queue import WebhookQueue, disagreements, work
from tests.jobs.pull_request_exceptions.grants import grant, notify

pytestmark = pytest.mark.check
DENIED = "Resource not accessible by integration"
FAILURES: dict[str, tuple[str, dict[str, Any]]] = {
    "502 before it": ("error", {"status": 502}),
    "502 after it": ("error", {"status": 502, "after": True}),
    "disconnected before it": ("disconnect", {}),
    "disconnected after it": ("disconnect", {"after": True}),
    "no check run in the answer": ("null_check_run", {}),
    "denied": ("error", {"status": 403, "message": DENIED}),
    "not found": ("error", {"status": 404}),
    "limited": ("error", {"status": 429}),
    "the token is revoked": ("revoked", {}),
}
PARTS = 6
"""The statements of a pass are tried in so many parts."""
OTHER = {1: 2, 2: 1}


def scope(name: str) -> dict[str, Any]:
    return {"type": "repositories", "repositories": [name]}


class Rehearsal(ABC):
    """A pass of a worker that is tried again and again."""

    def __init__(self, harness: Harness, build: Builder) -> None:
        self.harness = harness
        build(*self.repositories, pulls=2)
        WebhookQueue(harness)
        harness.run_until_idle()
        self.begin()
        work(harness)

    repositories: tuple[str, ...]

    @abstractmethod
    def begin(self) -> None:
        """Freeze what is to be freed, and let in what is to be blocked."""

    @abstractmethod
    def change(self) -> None:
        """Have something to be written, and people push; no worker has read it yet."""

    @abstractmethod
    def judge(self) -> None:
        """Try again, and require that nothing was allowed which is blocked, and that all is right in the end."""

    def take_a_turn(self) -> None:
        """Change what is blocked, and continue with a worker that knows nothing of it."""
        self.change()
        self.harness.fake_github.calls.reset()
        self.hand_over_to_a_new_worker()

    def try_again_later(self) -> None:
        """Try again later, and have the judge look at what was allowed."""
        self.harness.pass_time(hours=1)  # leases, pauses and retries are over
        self.hand_over_to_a_new_worker()
        self.judge()
        assert disagreements(self.harness) == {}

    def hand_over_to_a_new_worker(self) -> None:
        """Continue with a worker that has cached no token and no pause."""
        self.harness.reconciler = replace(self.harness.reconciler, github=GitHub(self.harness.github.settings))


class Freezes(Rehearsal):
    """Two repositories, of which one is frozen and the other is freed again and again."""

    repositories = ("api", "web")

    def begin(self) -> None:
        self.api: str | None = None
        self.web = self.harness.freeze(scope("acme/web"))

    def change(self) -> None:
        """Freeze `acme/api`, and free `acme/web`."""
        if self.api is not None:
            self.harness.lift(self.api)
            self.harness.run_until_idle()
        assert self.harness.conclusions() == self._shown(api="success", web="failure")
        for name in ("acme/api", "acme/web"):
            push_to_head(self.harness, name)
        self.api = self.harness.freeze(scope("acme/api"))
        self.harness.lift(self.web)

    def try_again_later(self) -> None:
        """Freeze `acme/web` again before another worker continues."""
        self.web = self.harness.freeze(scope("acme/web"))
        self.allowed_so_far = self.allowed("acme/web")
        super().try_again_later()

    def judge(self) -> None:
        work(self.harness)
        assert self.allowed("acme/api") == 0
        assert self.allowed("acme/web") == self.allowed_so_far
        assert self.harness.conclusions() == self._shown(api="failure", web="failure")
        query = "SELECT state FROM freeze_targets WHERE freeze_id IN (:api, :web)"
        assert self.harness.sql(query, api=self.api, web=self.web) == [("applied",)] * 2

    def allowed(self, name: str) -> int:
        """Return how often a merge into a repository was allowed since the turn began."""
        repository = self.harness.record(name)
        writes = self.harness.fake_github.calls.writes
        return sum(write["repositoryId"] == repository.id and write["conclusion"] == "success" for write in writes)

    @staticmethod
    def _shown(**repositories: str) -> dict[str, str]:
        return {f"acme/{name}#{number}": shown for name, shown in repositories.items() for number in (1, 2)}


class Exceptions(Rehearsal):
    """A frozen branch with two pull requests, of which one at a time may merge."""

    repositories = ("web",)

    def begin(self) -> None:
        self.freeze = self.harness.freeze()
        self.harness.run_until_idle()
        self.allowed = 1
        self.exception = grant(self.harness, self.freeze, self.allowed)

    def change(self) -> None:
        """Let the other one merge."""
        assert self.harness.conclusions() == self._shown()
        self.harness.sql("UPDATE exceptions SET revoked_at = clock_timestamp() WHERE id = :id", id=self.exception)
        self.allowed = OTHER[self.allowed]
        self.exception = grant(self.harness, self.freeze, self.allowed)
        for number in OTHER:
            push_to_head(self.harness, number=number)
        notify(self.harness)

    def judge(self) -> None:
        end_exceptions(self.harness.jobs)
        work(self.harness)
        blocked = self.harness.record().pulls[OTHER[self.allowed]]
        on_it = [write for write in self.harness.fake_github.calls.writes if write["headSha"] == blocked.head_sha]
        assert {write["conclusion"] for write in on_it} == {"failure"}
        assert self.harness.conclusions() == self._shown()

    def _shown(self) -> dict[str, str | None]:
        return {f"acme/web#{number}": "success" if number == self.allowed else "failure" for number in OTHER}


@pytest.fixture(params=[Freezes, Exceptions])
def rehearsal(request: pytest.FixtureRequest, harness: Harness, build: Builder) -> Rehearsal:
    made: Rehearsal = request.param(harness, build)
    return made


@pytest.mark.parametrize(("kind", "details"), FAILURES.values(), ids=FAILURES)
def test_no_failing_call_to_github_lets_a_success_through(
    rehearsal: Rehearsal, kind: str, details: dict[str, Any]
) -> None:
    for call in count():
        rehearsal.take_a_turn()
        failure = rehearsal.harness.fake_github.faults.add(kind, skip=call, count=1, **details)
        rehearsal.harness.run_until_idle()
        rehearsal.harness.fake_github.faults.clear(failure.id)
        rehearsal.try_again_later()
        if not failure.struck:
            break
    assert call >= 3, "a token is bought, the heads are read, and checks are written"


@pytest.mark.slow(12)
@pytest.mark.parametrize("first", range(1, PARTS + 1))
def test_no_lost_database_statement_lets_a_success_through(rehearsal: Rehearsal, first: int) -> None:
    for statement in count(first, PARTS):
        rehearsal.take_a_turn()
        with losing_the_database(rehearsal.harness, statement) as was_lost, suppress(DBAPIError):
            rehearsal.harness.run_until_idle()
        rehearsal.try_again_later()
        if not was_lost():
            break
    assert statement > 20, "a pass has that many statements"


@contextmanager
def losing_the_database(harness: Harness, statement: int) -> Iterator[Callable[[], bool]]:
    """End the server's side of a worker's connection right before the n-th statement; a commit counts as one."""
    seen = 0

    def lose(connection: Connection, *_: Any) -> None:
        nonlocal seen
        seen += 1
        driver = connection.connection.driver_connection
        if seen == statement and driver is not None:
            end = text("SELECT pg_terminate_backend(:process, 5000)").bindparams(process=driver.info.backend_pid)
            assert harness.session.scalar(end) is True

    events = ("before_cursor_execute", "commit")
    for name in events:
        event.listen(harness.jobs.engine, name, lose)
    try:
        yield lambda: seen >= statement
    finally:
        for name in events:
            event.remove(harness.jobs.engine, name, lose)
