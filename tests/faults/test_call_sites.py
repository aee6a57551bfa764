"""I3 at every call site in turn: whatever fails, no `success` reaches a frozen branch, and trying again heals all.

`acme/api` is frozen and `acme/web` is freed while people push to both, so that one pass has failures and successes to
send. One of its calls to GitHub fails, or its connection to the database dies at one of its statements; then
`acme/web` is frozen again. This is repeated for the first, the second, … until a pass had no such call any more.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from typing import Any, Protocol, cast

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import DBAPIError

from integrations.github import GitHub
from tests.harness.clock import MovableClock
from tests.harness.github_harness import Builder, Harness
from tests.harness.people import push
from tests.harness.webhook_queue import WebhookQueue, disagreements, work

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
each_failure = pytest.mark.parametrize(("kind", "details"), FAILURES.values(), ids=FAILURES)
each_part = pytest.mark.parametrize("first", range(1, PARTS + 1))
"""The statements of a pass, in six parts."""


def scope(name: str) -> dict[str, Any]:
    return {"type": "repositories", "repositories": [name]}


class Rehearsed(Protocol):
    """A pass of a worker that can be tried again and again."""

    harness: Harness

    def take_a_turn(self) -> None:
        """Have something to be written; no worker has read it yet."""

    def be_refused_by_the_judge(self) -> None:
        """Try again later, and require that nothing was allowed which is blocked, and that all is right in the end."""


def fail_at_every_call(rehearsal: Rehearsed, kind: str, details: dict[str, Any]) -> None:
    """Have one call to GitHub fail, the first, the second, … until a pass has no such call any more."""
    for call in count():
        rehearsal.take_a_turn()
        failure = rehearsal.harness.fake_github.faults.add(kind, skip=call, count=1, **details)
        rehearsal.harness.run_until_idle()
        rehearsal.harness.fake_github.faults.clear(failure.id)
        rehearsal.be_refused_by_the_judge()
        if not failure.struck:
            break
    assert call >= 3, "a token is bought, the heads are read, and checks are written"


def lose_the_database_at_every_sixth_statement(
    rehearsal: Rehearsed, first: int, *, notify: Callable[[Harness], None] | None = None
) -> None:
    """Have the connection die at one statement, the first, the seventh, …; `notify` marks what is due."""
    for statement in count(first, PARTS):
        rehearsal.take_a_turn()
        if notify is not None:
            notify(rehearsal.harness)
        with losing_the_database(rehearsal.harness, statement) as was_lost, suppress(DBAPIError):
            rehearsal.harness.run_until_idle()
        rehearsal.be_refused_by_the_judge()
        if not was_lost():
            break
    assert statement > 20, "a pass has that many statements"


@dataclass
class Rehearsal:
    """Two repositories, of which one is frozen and the other is freed again and again."""

    harness: Harness
    api: str | None = None
    """The freeze of `acme/api`, if it is frozen."""
    web: str = ""

    def take_a_turn(self) -> None:
        """Freeze `acme/api`, free `acme/web`, and have people push to both; no worker has read it yet."""
        if self.api is not None:
            self.harness.lift(self.api)
            self.harness.run_until_idle()
        assert self.harness.conclusions() == self._shown(api="success", web="failure")
        for name in ("acme/api", "acme/web"):
            pull = self.harness.fake_github.world.repository_named(name).pulls[1]
            assert push(self.harness, name, pull.head_ref).status_code == 201
        self.api = self.harness.freeze(scope("acme/api"))
        self.harness.lift(self.web)
        self.harness.fake_github.calls.reset()
        self.hand_over_to_a_new_worker()

    def hand_over_to_a_new_worker(self) -> None:
        """Continue with a worker that has cached no token and no pause."""
        self.harness.reconciler = replace(self.harness.reconciler, github=GitHub(self.harness.github.settings))

    def be_refused_by_the_judge(self) -> None:
        """Freeze `acme/web` again, try again later, and require that nothing was allowed which was frozen."""
        self.web = self.harness.freeze(scope("acme/web"))
        allowed_so_far = self.allowed("acme/web")
        cast(MovableClock, self.harness.jobs.clock).offset += timedelta(hours=1)  # leases, pauses and retries are over
        self.hand_over_to_a_new_worker()
        work(self.harness)
        assert self.allowed("acme/api") == 0
        assert self.allowed("acme/web") == allowed_so_far
        assert disagreements(self.harness) == {}
        assert self.harness.conclusions() == self._shown(api="failure", web="failure")
        query = "SELECT state FROM freeze_targets WHERE freeze_id IN (:api, :web)"
        assert self.harness.sql(query, api=self.api, web=self.web) == [("applied",)] * 2

    def allowed(self, name: str) -> int:
        """Return how often a merge into a repository was allowed since the turn began."""
        repository = self.harness.fake_github.world.repository_named(name)
        writes = self.harness.fake_github.calls.writes
        return sum(write["repositoryId"] == repository.id and write["conclusion"] == "success" for write in writes)

    @staticmethod
    def _shown(**repositories: str) -> dict[str, str]:
        return {f"acme/{name}#{number}": shown for name, shown in repositories.items() for number in (1, 2)}


@pytest.fixture
def rehearsal(harness: Harness, build: Builder) -> Rehearsal:
    build("api", "web", pulls=2)
    WebhookQueue(harness)
    made = Rehearsal(harness, web=harness.freeze(scope("acme/web")))
    work(harness)
    return made


@each_failure
def test_no_failing_call_to_github_lets_a_success_through(
    rehearsal: Rehearsal, kind: str, details: dict[str, Any]
) -> None:
    fail_at_every_call(rehearsal, kind, details)


@pytest.mark.slow(12)
@each_part
def test_no_lost_database_statement_lets_a_success_through(rehearsal: Rehearsal, first: int) -> None:
    lose_the_database_at_every_sixth_statement(rehearsal, first)


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
