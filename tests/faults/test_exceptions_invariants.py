"""Exceptions in whatever order things happen: what a model of a few lines allows merges, what it blocks does not.

Freezes begin and end, exceptions are requested, granted, denied, revoked and end by their time, people push, and push
back, to heads that they share or not. The judge is the merge button of the simulated GitHub, and its merge queue:
one pull request is merged now and then, and at every rest what would merge of all of them is compared.

`tests/faults/state_machines.py` says how to explore.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from models.exceptions import PullRequestException
from rules.access.permissions import Actor
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.maintenance.tasks import end_freezes
from services.pull_request_exceptions.decisions import ExceptionDecision, decide, grant, revoke
from services.pull_request_exceptions.expiry import end_exceptions
from services.pull_request_exceptions.requests import ExceptionInput, request
from tests.faults.state_machines import BASES, HarnessMachine, some
from tests.harness.exceptions_model import Frozen, Granted, Model, only
from tests.harness.github_harness import Harness
from tests.harness.pipeline import PIPELINE
from tests.harness.state_machines import explore
from tests.harness.webhook_queue import full_resync, work
from tools.fake_github.model import queue
from tools.fake_github.model.protection import merge_violations
from tools.fake_github.model.records import PullRequest, Repository
from tools.fake_github.model.refusals import Refusal

SCOPES: list[tuple[dict[str, Any], set[tuple[str, str]]]] = [
    ({"type": "organization"}, {(name, base) for name in ("line", "web") for base in BASES}),
    ({"type": "organization", "branches": ["main"]}, {("line", "main"), ("web", "main")}),
    ({"type": "repositories", "repositories": ["acme/web"]}, {("web", base) for base in BASES}),
    ({"type": "branch", "repository": "acme/web", "branch": "release/1"}, {("web", "release/1")}),
    ({"type": "branch", "repository": "acme/line", "branch": "main"}, {("line", "main")}),
]
"""What is frozen, and which branches that covers."""
ADA = Actor("user", "usr_ada", "Ada")
REASON = "The hotfix that has to go in"


class Machine(HarnessMachine):
    """People, release managers, time, and the service between them; `main` of `line` has a merge queue."""

    named = ("line", "web")
    proposed = ("main", "main", "release/1")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.asked: list[str] = []
        """Exceptions that were requested, in whatever state they are by now."""

    def _build(self, name: str) -> Repository:
        record = super()._build(name)
        if name == "line":
            self.harness.fake_github.organization("acme").repository(name).merge_queue()
        return record

    def _open(self) -> list[tuple[Repository, PullRequest]]:
        return [(each, pull) for each in self.repositories for pull in each.pulls.values() if pull.state == "open"]

    @initialize(
        second=some,
        minutes=st.sampled_from([None, 45, 125]),
        grants=st.lists(st.tuples(some, st.sampled_from([None, 35, 95]), st.booleans()), min_size=4, max_size=8),
    )
    def begin(self, second: int, minutes: int | None, grants: list[tuple[int, int | None, bool]]) -> None:
        """Freeze everything, let some pull requests pass, and freeze some of them again."""
        self._freeze(0, None, exceptions=True)
        for place, (which, until, pin) in enumerate(grants):
            self._ask_or_grant(which + place, until, pin=pin, asks=False)
        self.rest()
        self._freeze(second, self.now + timedelta(minutes=minutes) if minutes else None, exceptions=True)
        for place, (which, until, pin) in enumerate(grants[::2]):
            self._ask_or_grant(which + 2 * place, until, pin=pin, asks=False)

    # --- freezes --------------------------------------------------------------------------------------------------

    @rule(which=some, minutes=st.sampled_from([None, 45, 125]), exceptions=st.sampled_from([True, True, True, False]))
    def freeze(self, which: int, minutes: int | None, exceptions: bool) -> None:
        now = self.now
        if len([each for each in self.model.freezes.values() if each.until is None or now < each.until]) < 3:
            self._freeze(which, now + timedelta(minutes=minutes) if minutes else None, exceptions=exceptions)

    def _freeze(self, which: int, until: datetime | None, *, exceptions: bool) -> None:
        scope, covers = SCOPES[which % len(SCOPES)]
        made = self.harness.freeze(scope, ends_at=until, exceptions_allowed=exceptions)
        self.model.freezes[made] = Frozen(covers, until, exceptions)

    @precondition(lambda self: self.model.freezes)
    @rule(which=some, rests=st.booleans())
    def lift_one(self, which: int, rests: bool) -> None:
        self._lift(which)
        self._rest_if(rests)

    def _lift(self, which: int) -> None:
        names = sorted(self.model.freezes)
        name = names[which % len(names)]
        try:
            self.harness.lift(name)
        except ServiceError as error:
            only(error, "not_frozen")
        del self.model.freezes[name]

    # --- exceptions -----------------------------------------------------------------------------------------------

    def _by(self, actor: Actor) -> Any:
        return self.harness.unit(actor, "api")

    def _wanted(self, uow: UnitOfWork, minutes: int | None, *, pin: bool) -> ExceptionInput:
        return ExceptionInput(REASON, uow.now + timedelta(minutes=minutes) if minutes else None, pin)

    def _learn(self, rows: Sequence[PullRequestException], pull: PullRequest) -> None:
        for row in rows:
            if row.decision == "granted":
                pin = row.head_sha if row.pin_to_head else None
                [(base,)] = self.harness.sql("SELECT name FROM watched_branches WHERE id = :id", id=row.branch_id)
                self.model.grants[row.id] = Granted(row.freeze_id, pull, base, pin, row.expires_at)

    @rule(which=some, minutes=st.sampled_from([None, 35, 95]), pin=st.booleans())
    def ask(self, which: int, minutes: int | None, pin: bool) -> None:
        self._ask_or_grant(which, minutes, pin=pin, asks=True)

    @rule(which=some, minutes=st.sampled_from([None, 35, 95]), pin=st.booleans(), rests=st.booleans())
    def grant(self, which: int, minutes: int | None, pin: bool, rests: bool) -> None:
        self._ask_or_grant(which, minutes, pin=pin, asks=False)
        self._rest_if(rests)

    @rule(which=some, minutes=st.sampled_from([None, 35, 95]), pin=st.booleans())
    def grant_to_all_on_a_head(self, which: int, minutes: int | None, pin: bool) -> None:
        if (found := self.any_pull_request(which)) is not None:
            for place, (_repository, pull) in enumerate(self._open()):
                if pull.head_sha == found[1].head_sha:
                    self._ask_or_grant(place, minutes, pin=pin, asks=False)
            self.rest()

    def _ask_or_grant(self, which: int, minutes: int | None, *, pin: bool, asks: bool) -> None:
        if (found := self.any_pull_request(which)) is None:
            return
        repository, pull = found
        name = f"acme/{repository.name}#{pull.number}"
        covering = self.model.covering(repository, pull, self.now)
        permitted = all(self.model.freezes[each].exceptions for each in covering)
        try:
            with self._by(ADA if asks else PIPELINE) as uow:
                rows = (request if asks else grant)(uow, name, None, self._wanted(uow, minutes, pin=pin)).rows
        except ServiceError as error:
            expected = "not_frozen" if not covering else "already_exists" if permitted else "exceptions_not_permitted"
            only(error, expected, "pull_request_not_found")
            return
        assert permitted
        assert {row.freeze_id for row in rows} <= covering
        self.asked += [row.id for row in rows if asks]
        self._learn(rows, pull)

    @precondition(lambda self: self.asked)
    @rule(which=some, granted=st.sampled_from([True, True, False]), only_this=st.booleans())
    def decide_on(self, which: int, granted: bool, only_this: bool) -> None:
        name = self.asked[which % len(self.asked)]
        try:
            with self._by(PIPELINE) as uow:
                rows = decide(uow, name, ExceptionDecision(granted, only_this=only_this))
        except ServiceError as error:
            only(error, "invalid_state", "exceptions_not_permitted")
            return
        self._learn(rows, self._pull_of(rows[0].pull_request_id))

    def _pull_of(self, pull_request_id: str) -> PullRequest:
        query = (
            "SELECT r.github_id, p.number FROM pull_requests p JOIN repositories r ON r.id = p.repository_id "
            "WHERE p.id = :id"
        )
        [(github_id, number)] = self.harness.sql(query, id=pull_request_id)
        return self.harness.fake_github.world.repositories[github_id].pulls[number]

    @precondition(lambda self: self.model.grants)
    @rule(which=some, rests=st.booleans())
    def revoke(self, which: int, rests: bool) -> None:
        names = sorted(self.model.grants)
        self._revoke(names[which % len(names)])
        self._rest_if(rests)

    def _revoke(self, name: str) -> None:
        try:
            with self._by(PIPELINE) as uow:
                rows = revoke(uow, name, None)
        except ServiceError as error:
            only(error, "invalid_state")
            return
        for row in rows:
            self.model.grants.pop(row.id, None)

    # --- time and people ------------------------------------------------------------------------------------------

    @rule(minutes=st.sampled_from([20, 40, 70]), asks=st.booleans(), rests=st.booleans())
    def pass_time(self, minutes: int, asks: bool, rests: bool) -> None:
        """Let time pass, and request everything again before the ends are recorded."""
        self._rest_if(asks)
        self.clock.offset += timedelta(minutes=minutes)
        for place in range(len(self._open()) if asks else 0):
            self._ask_or_grant(place, None, pin=False, asks=True)
        self._rest_if(asks or rests)

    @rule(which=some, rests=st.booleans())
    def push_more(self, which: int, rests: bool) -> None:
        if (found := self.any_pull_request(which)) is not None:
            self.people.push(*found)
        self._rest_if(rests)

    @rule(which=some)
    def push_and_push_back(self, which: int) -> None:
        """Push, and force the head back once that was seen: best to a head that an exception is pinned to."""
        pins, now = [each.pull for each in self.model.grants.values() if each.pin is not None], self.now
        mergeable = [each for each in self._open() if each[1] in pins and self.model.allows(*each, now)]
        found = mergeable or self._open()
        if not found:
            return
        repository, pull = found[which % len(found)]
        before = pull.head_sha
        self.people.push(repository, pull)
        self.rest()
        self.people.force(repository, pull, before)
        self.rest()

    @rule(which=some, base=st.sampled_from(BASES))
    def propose_the_same_head(self, which: int, base: str) -> None:
        found = self.any_pull_request(which)
        if found is not None and len(found[0].pulls) <= 8:
            self.people.propose_the_same(*found, base)

    @rule(which=some, base=st.sampled_from(BASES), delivered=st.booleans())
    def retarget(self, which: int, base: str, delivered: bool) -> None:
        if (found := self.any_pull_request(which)) is not None:
            self.people.retarget(*found, base)
            self._see(delivered=delivered)

    @rule(which=some, delivered=st.booleans())
    def close(self, which: int, delivered: bool) -> None:
        if (found := self.any_pull_request(which)) is not None:
            self.people.close(*found)
            self._see(delivered=delivered)

    @rule(delivered=st.booleans())
    def reopen_all(self, delivered: bool) -> None:
        for repository in self.repositories:
            for pull in repository.pulls.values():
                if pull.state == "closed" and pull.merged_at is None:
                    with suppress(Refusal):
                        self.people.reopen(repository, pull)
        self._see(delivered=delivered)

    def _see(self, *, delivered: bool) -> None:
        """Come to rest: exceptions are for the base that was last seen."""
        if not delivered:
            self.webhooks_are_lost()
        self.rest()

    @rule(passes=st.sampled_from([0, 1, 9]))
    def go_on_for_a_while(self, passes: int) -> None:
        self.webhook_queue.deliver(self.webhook_queue.take())
        while passes and self.harness.reconciler.run_pass():
            passes -= 1

    @rule()
    def webhooks_are_lost(self) -> None:
        if self.webhook_queue.take():
            self.all_delivered = False

    # --- the judge ------------------------------------------------------------------------------------------------

    def _rest_if(self, wanted: bool) -> None:
        if wanted:
            self.rest()

    def rest(self) -> None:
        self.webhook_queue.run()
        end_freezes(self.harness.jobs)
        end_exceptions(self.harness.jobs)
        work(self.harness)
        if not self.all_delivered:
            full_resync(self.harness)
            self.all_delivered = True
            self.webhook_queue.run()
        self.model.see_pushes()
        assert self._shown() == self._modelled()

    def _shown(self) -> dict[str, bool]:
        """Return which open pull requests GitHub would merge, or queue."""
        world = self.harness.fake_github.world
        return {
            f"{repository.name}#{pull.number}": not merge_violations(
                world, self.people.actor, repository, pull.base_ref, pull.head_sha, pull.review_decision, queued=True
            )
            for repository, pull in self._open()
        }

    def _modelled(self) -> dict[str, bool]:
        now = self.now
        return {
            f"{repository.name}#{pull.number}": self.model.allows(repository, pull, now)
            for repository, pull in self._open()
        }

    @rule(which=some)
    def merge(self, which: int) -> None:
        self.rest()
        if (found := self.any_pull_request(which)) is not None:
            repository, pull = found
            if (repository.name, pull.base_ref) != ("line", "main"):
                allowed = self.model.allows(repository, pull, self.now)
                answer = self.harness.merge(f"acme/{repository.name}", pull.number)
                assert answer.status_code == (200 if allowed else 405), (allowed, answer.text)

    def _in_line(self) -> list[PullRequest]:
        return [pull for each, pull in self._open() if (each.name, pull.base_ref) == ("line", "main")]

    @rule(
        ends=st.sampled_from(["nothing", "an exception", "the freezes", "time"]),
        delivered=st.booleans(),
        excepted=st.booleans(),
    )
    def merge_by_the_queue(self, ends: str, delivered: bool, excepted: bool) -> None:
        """Queue all that may be, change something, and see that just those in front of the first blocked one land."""
        line, world = self.repositories[0], self.harness.fake_github.world
        for _ in range(3 - len(self._in_line())):
            self.people.propose(line, "main")
        self.rest()
        for place, (_repository, pull) in enumerate(self._open()):
            if excepted and pull in self._in_line():
                self._ask_or_grant(place, None, pin=False, asks=False)
        self.rest()
        now, mine = self.now, self._in_line()
        for pull in mine:
            assert self._enqueues(line, pull) is self.model.allows(line, pull, now)
        queued = [line.pulls[entry.number] for entry in world.queues.get((line.id, "main"), [])]
        self._change(ends, queued)
        now, landing = self.now, True
        expected = [
            landing := landing and self.model.covering(line, pull, now) <= self.model.passed(pull, now)
            for pull in queued
        ]
        if not delivered:
            self.webhooks_are_lost()
        self.rest()
        assert [pull.merged_at is not None for pull in queued] == expected

    def _enqueues(self, line: Repository, pull: PullRequest) -> bool:
        try:
            self.harness.act(queue.enqueue, line, pull)
        except Refusal:
            return False
        return True

    def _change(self, what: str, queued: Sequence[PullRequest]) -> None:
        theirs = sorted(name for name, each in self.model.grants.items() if any(each.pull is one for one in queued))
        if what == "an exception" and theirs:
            self._revoke(theirs[len(theirs) // 2])
        elif what == "the freezes":
            for name in sorted(self.model.freezes):
                self._lift(0) if name in self.model.freezes else None
        elif what == "time":
            self.clock.offset += timedelta(minutes=70)

    def teardown(self) -> None:
        self.rest()
        for place in range(len(self._open())):
            self._ask_or_grant(place, None, pin=True, asks=False)
        self.rest()
        self.push_and_push_back(0)


@pytest.mark.slow(10)
@pytest.mark.parametrize("histories", [1, pytest.param(4, marks=pytest.mark.check)])
def test_pull_requests_merge_exactly_when_the_model_allows_them(
    harness: Harness, shared_database: psycopg.Connection[Any], histories: int
) -> None:
    explore(Machine, histories, steps=30, harness=harness, database=shared_database)
