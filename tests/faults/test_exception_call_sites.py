"""Exceptions at every call site in turn: whatever fails, no `success` reaches what is blocked, and trying again heals.

Two pull requests into a frozen branch swap their exception, again and again, while people push to both; so one pass
has a failure and a success to send. One of its calls to the code host fails, or its connection to the database dies at
one of its statements, the first, the second, … until a pass had no such call any more.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast

import pytest

from integrations.github import GitHub
from services.pull_request_exceptions.expiry import end_exceptions
from tests.faults.test_call_sites import each_failure, fail_at_every_call, lose_the_database_at_every_statement
from tests.faults.test_new_branches import push
from tests.harness.webhook_queue import Post, disagreements, work
from tests.jobs.conftest import Builder, Town
from tests.jobs.pull_request_exceptions.granting import grant, tell
from tests.services.conftest import MovedClock

OTHER = {1: 2, 2: 1}


@dataclass
class Rehearsal:
    """A frozen branch with two pull requests, of which one at a time may merge."""

    town: Town
    freeze: str
    allowed: int
    exception: str

    def take_a_turn(self) -> None:
        """Let the other one merge, and have people push to both; a worker has yet to hear of it."""
        assert self.town.conclusions() == self._shown()
        self.town.sql("UPDATE exceptions SET revoked_at = clock_timestamp() WHERE id = :id", id=self.exception)
        self.allowed = OTHER[self.allowed]
        self.exception = grant(self.town, self.freeze, self.allowed)
        for pull in self.town.host.world.repository_named("acme/web").pulls.values():
            assert push(self.town, "acme/web", pull.head_ref).status_code == 201
        self.town.host.calls.reset()
        self.hand_over_to_a_new_worker()

    def hand_over_to_a_new_worker(self) -> None:
        """Have somebody go on who remembers no token and no pause."""
        self.town.reconciler = replace(self.town.reconciler, github=GitHub(self.town.github.settings))

    def be_refused_by_the_judge(self) -> None:
        """Try again later, and require that just the one with the exception was allowed."""
        cast(MovedClock, self.town.jobs.clock).ahead += timedelta(hours=1)  # leases, pauses and retries are over
        self.hand_over_to_a_new_worker()
        end_exceptions(self.town.jobs)
        work(self.town)
        blocked = self.town.host.world.repository_named("acme/web").pulls[OTHER[self.allowed]]
        on_it = [write for write in self.town.host.calls.writes if write["headSha"] == blocked.head_sha]
        assert {write["conclusion"] for write in on_it} == {"failure"}
        assert disagreements(self.town) == {}
        assert self.town.conclusions() == self._shown()

    def _shown(self) -> dict[str, str | None]:
        return {f"acme/web#{number}": "success" if number == self.allowed else "failure" for number in OTHER}


@pytest.fixture
def rehearsal(town: Town, build: Builder) -> Rehearsal:
    build("web")
    Post(town)
    town.settle()
    freeze = town.freeze()
    town.settle()
    made = Rehearsal(town, freeze, 1, grant(town, freeze, 1))
    work(town)
    return made


@each_failure
def test_no_failing_call_to_github_allows_a_blocked_merge(
    rehearsal: Rehearsal, kind: str, details: dict[str, Any]
) -> None:
    fail_at_every_call(rehearsal, kind, details)


@pytest.mark.slow
def test_no_lost_database_statement_allows_a_blocked_merge(rehearsal: Rehearsal) -> None:
    lose_the_database_at_every_statement(rehearsal, hear=tell)
