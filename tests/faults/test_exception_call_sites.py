"""Exceptions at every call site in turn: whatever fails, no `success` reaches what is blocked, and trying again heals.

Two pull requests into a frozen branch swap their exception, again and again, while people push to both; so one pass
has a failure and a success to send. One of its calls to GitHub fails, or its connection to the database dies at
one of its statements, the first, the second, … until a pass had no such call any more.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast

import pytest

from integrations.github import GitHub
from services.pull_request_exceptions.expiry import end_exceptions
from tests.faults.test_call_sites import (
    each_failure,
    each_part,
    fail_at_every_call,
    lose_the_database_at_every_sixth_statement,
)
from tests.harness.clock import MovableClock
from tests.harness.github_harness import Builder, Harness
from tests.harness.people import push
from tests.harness.webhook_queue import WebhookQueue, disagreements, work
from tests.jobs.pull_request_exceptions.grants import grant, notify

pytestmark = pytest.mark.check
OTHER = {1: 2, 2: 1}


@dataclass
class Rehearsal:
    """A frozen branch with two pull requests, of which one at a time may merge."""

    harness: Harness
    freeze: str
    allowed: int
    exception: str

    def take_a_turn(self) -> None:
        """Let the other one merge, and have people push to both; no worker has read it yet."""
        assert self.harness.conclusions() == self._shown()
        self.harness.sql("UPDATE exceptions SET revoked_at = clock_timestamp() WHERE id = :id", id=self.exception)
        self.allowed = OTHER[self.allowed]
        self.exception = grant(self.harness, self.freeze, self.allowed)
        for pull in self.harness.fake_github.world.repository_named("acme/web").pulls.values():
            assert push(self.harness, "acme/web", pull.head_ref).status_code == 201
        self.harness.fake_github.calls.reset()
        self.hand_over_to_a_new_worker()

    def hand_over_to_a_new_worker(self) -> None:
        """Continue with a worker that has cached no token and no pause."""
        self.harness.reconciler = replace(self.harness.reconciler, github=GitHub(self.harness.github.settings))

    def be_refused_by_the_judge(self) -> None:
        """Try again later, and require that just the one with the exception was allowed."""
        cast(MovableClock, self.harness.jobs.clock).offset += timedelta(hours=1)  # leases, pauses and retries are over
        self.hand_over_to_a_new_worker()
        end_exceptions(self.harness.jobs)
        work(self.harness)
        blocked = self.harness.fake_github.world.repository_named("acme/web").pulls[OTHER[self.allowed]]
        on_it = [write for write in self.harness.fake_github.calls.writes if write["headSha"] == blocked.head_sha]
        assert {write["conclusion"] for write in on_it} == {"failure"}
        assert disagreements(self.harness) == {}
        assert self.harness.conclusions() == self._shown()

    def _shown(self) -> dict[str, str | None]:
        return {f"acme/web#{number}": "success" if number == self.allowed else "failure" for number in OTHER}


@pytest.fixture
def rehearsal(harness: Harness, build: Builder) -> Rehearsal:
    build("web")
    WebhookQueue(harness)
    harness.run_until_idle()
    freeze = harness.freeze()
    harness.run_until_idle()
    made = Rehearsal(harness, freeze, 1, grant(harness, freeze, 1))
    work(harness)
    return made


@each_failure
def test_no_failing_call_to_github_allows_a_blocked_merge(
    rehearsal: Rehearsal, kind: str, details: dict[str, Any]
) -> None:
    fail_at_every_call(rehearsal, kind, details)


@pytest.mark.slow(10)
@each_part
def test_no_lost_database_statement_allows_a_blocked_merge(rehearsal: Rehearsal, first: int) -> None:
    lose_the_database_at_every_sixth_statement(rehearsal, first, notify=notify)
