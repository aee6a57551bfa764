"""I1 and I3 under any interleaving of the steps of workers: what a call does that arrives when nobody waits for it.

Three workers process two branches of a pattern, of which one has no rule of its own, and heads that both share. They
stop before each transaction and in each call. Meanwhile freezes begin and end, and people push, close and reopen.
Workers die or lose a connection at any step, and their calls arrive up to ten seconds later. Webhooks come late; none
is lost. No `success` is decided where a freeze blocks it, and nothing can merge once a freeze is blocked, by a stop or
by checks. At rest every open head shows its verdict, a head that nothing can merge shows no `success`, no stop is on,
and a full pass finds nothing to write.

Each interleaving begins where the last one came to rest. `tests/harness/state_machines.py` says how to explore.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from services.enforcement.frozen_branches import write_due
from services.enforcement.stops import stop_due
from services.maintenance import resync
from services.reconcile.evaluation import CheckUpdate
from tests.faults.state_machines import HarnessMachine
from tests.harness.blocking_surfaces import REPLACING, ways_in
from tests.harness.github_harness import Harness
from tests.harness.state_machines import explore
from tests.harness.stepped_workers import Fate, Place, SteppedWorker, SteppedWorkers
from tests.harness.webhook_queue import Verdicts, disagreements, landable
from tests.jobs.stops.requests import required, stop_from
from tools.fake_github.model.records import PullRequest

RELEASES = ("release/1", "release/2")
MAX_PULLS = 5
MIN_ACTIONS, MAX_ACTIONS = 8, 24


class Interleavings(HarnessMachine):
    """Everything that can happen to a repository between the steps of three workers."""

    named = ("web",)
    unprotected = (("web", "release/2"),)
    proposed = ("release/1",)

    def __init__(self) -> None:
        super().__init__()
        [self.repository] = self.repositories
        self.harness.sql("UPDATE repositories SET rulesets_authorized_at = created_at")
        stop_from(self.harness)
        self.webhook_queue.run()
        self.harness.read_rules()
        self.workers = SteppedWorkers(self.harness, 3, self._judge)
        self.chance = random.Random()
        self.actions: list[tuple[int, Callable[[], object]]] = [
            (8, self.a_worker_goes_on),
            (3, self.something_befalls_a_worker),
            (1, self.a_worker_counts_as_dead),
            (2, self.a_lost_call_arrives),
            (2, self.time_passes),
            (3, self.a_freeze_begins_or_ends),
            (2, self.a_head_changes),
            (2, self.a_pull_request_comes_or_goes),
            (3, self.webhooks_arrive),
            (3, self.others_work),
            (5, self.a_stop_goes_on),
            (1, self.rules_are_read),
            (1, self.everything_is_read_again),
        ]
        """What can happen, and how often."""

    @rule(seed=st.integers(0, 2**32 - 1))
    def interleave(self, seed: int) -> None:
        self.chance.seed(seed)
        weights, actions = zip(*self.actions, strict=True)
        chosen = self.chance.choices(actions, weights, k=self.chance.randint(MIN_ACTIONS, MAX_ACTIONS))
        done: list[str] = []
        try:
            with self.workers.installed():
                for action in (self.a_freeze_begins_or_ends, self.a_worker_goes_on, *chosen):
                    done.append(action.__name__)
                    done[-1] += f": {action()}"
                    self._check_blocked()
                self.workers.end()
            self._come_to_rest()
        except BaseException as error:
            error.add_note("\n".join([f"interleave({seed}):", *done]))
            raise

    def _check_blocked(self) -> None:
        """Check that nothing can merge into a branch of a freeze that is blocked."""
        blocked = self.harness.sql(
            "SELECT DISTINCT b.name FROM freezes f JOIN freeze_targets t ON t.freeze_id = f.id "
            "JOIN watched_branches b ON b.id = t.branch_id "
            "WHERE t.operation = 'apply' AND f.ended_at IS NULL AND f.blocked_at IS NOT NULL"
        )
        for row in blocked:
            ways = [way for way in ways_in(self.harness, self.repository.id, row.name) if way.way not in REPLACING]
            assert not ways, (row.name, ways[:3])

    # --- workers --------------------------------------------------------------------------------------------------

    def _judge(self, updates: Sequence[CheckUpdate]) -> None:
        """Check that nothing was allowed that a freeze blocked; nothing has changed in the database since."""
        allowed = [update for update in updates if update.conclusion == "success"]
        if not allowed:
            return
        verdicts = Verdicts.read(self.harness)
        rows = self.harness.sql("SELECT number, head_sha, base_branch FROM pull_requests WHERE state = 'open'")
        mirrored = [
            replace(self.repository.pulls[row.number], head_sha=row.head_sha, base_ref=row.base_branch, state="open")
            for row in rows
        ]
        for update in allowed:
            key = update.head.key
            assert not verdicts.expected(self.repository, key.check_name, mirrored).get(key.sha, False), update

    def a_worker_goes_on(self) -> str:
        worker = self.chance.choice(self.workers.all)
        place = self.chance.choice((*Place, Place.TRANSACTION, Place.FLIGHT))
        worker.go_to(place)
        return self._name(worker)

    def something_befalls_a_worker(self) -> str:
        if (worker := self._busy()) is None:
            return "-"
        fate = self.chance.choice((*Fate, Fate.DIES, Fate.DIES))
        worker.go(fate)
        if fate is Fate.DIES and self.chance.random() < 0.8:
            self._end_leases(worker)
        return f"{fate} {self._name(worker)}"

    def a_worker_counts_as_dead(self) -> str:
        """PostgreSQL loses the connection of its lock; the worker goes on."""
        if (worker := self._busy()) is None:
            return "-"
        self._end_leases(worker)
        return self._name(worker)

    def _busy(self) -> SteppedWorker | None:
        """Return a worker that is in a pass, with a call under way if there is one."""
        busy = [worker for worker in self.workers.all if worker.place is not Place.END]
        calling = [worker for worker in busy if worker.place is Place.FLIGHT]
        return self.chance.choice(calling or busy) if busy else None

    def _name(self, worker: SteppedWorker) -> str:
        return f"{self.workers.all.index(worker)} is at {worker.place}"

    def _end_leases(self, worker: SteppedWorker) -> None:
        ended = "UPDATE checks SET lease_until = clock_timestamp() + :offset WHERE lease_token = :token"
        self.harness.sql(ended, offset=self.clock.offset - timedelta(seconds=1), token=worker.token)

    def others_work(self) -> None:
        """Have a worker that nothing befalls do what is due."""
        self.harness.run_until_idle()

    def a_stop_goes_on(self) -> str:
        """Have a worker that nothing befalls take some steps for stops."""
        steps = self.chance.choice((1, 1, 2, 4))
        return str([stop_due(self.harness.jobs, self.harness.github) for _ in range(steps)])

    def rules_are_read(self) -> None:
        self.harness.read_rules()

    def a_lost_call_arrives(self) -> str:
        if not self.workers.lost_calls:
            return "-"
        self.workers.let_arrive(self.chance.choice(self.workers.lost_calls))
        return "one"

    def time_passes(self) -> str:
        seconds = self.chance.choice((1, 6, 16))
        self.workers.let_calls_arrive(within=seconds)
        self.clock.offset += timedelta(seconds=seconds)
        return str(seconds)

    # --- the service and people -----------------------------------------------------------------------------------

    def a_freeze_begins_or_ends(self) -> str:
        running = self.harness.sql("SELECT id FROM freezes WHERE ended_at IS NULL ORDER BY id")
        if running and self.chance.random() < 0.6:
            self.harness.lift(self.chance.choice(running)[0])
            return "ends"
        names = self.chance.choice((RELEASES[:1], RELEASES[1:], RELEASES))
        self.harness.freeze({"type": "repositories", "repositories": ["acme/web"], "branches": list(names)})
        return str(names)

    def _pulls(self, state: str) -> Sequence[PullRequest]:
        return [pull for pull in self.repository.pulls.values() if pull.state == state]

    def a_head_changes(self) -> str:
        if not (found := self._pulls("open")):
            return "-"
        pull = self.chance.choice(found)
        self.people.push(self.repository, pull)
        return f"#{pull.number}"

    def a_pull_request_comes_or_goes(self) -> str:
        is_open, closed = self._pulls("open"), self._pulls("closed")
        if closed and (not is_open or self.chance.random() < 0.4):
            pull = self.chance.choice(closed)
            self.people.reopen(self.repository, pull)
            return f"#{pull.number} is opened"
        pull, what = self.chance.choice(is_open), self.chance.random()
        other = RELEASES[pull.base_ref == RELEASES[0]]
        if what < 0.5:
            self.people.close(self.repository, pull)
        elif what < 0.75:
            self.people.retarget(self.repository, pull, other)
        elif len(self.repository.pulls) < MAX_PULLS:
            self.people.propose_the_same(self.repository, pull, other)
        return f"#{pull.number} {what:.1}"

    def webhooks_arrive(self) -> None:
        self.webhook_queue.deliver(self.webhook_queue.take())

    def everything_is_read_again(self) -> None:
        resync.full_resync(self.harness.jobs, timedelta(0))

    # --- at rest --------------------------------------------------------------------------------------------------

    def _come_to_rest(self) -> None:
        harness = self.harness
        self.webhooks_arrive()
        for _ in range(3):  # leases run out, retries come due, and what they leave is read once more
            self.clock.offset += timedelta(minutes=45)
            harness.run_until_idle()
            while stop_due(harness.jobs, harness.github) or write_due(harness.jobs, harness.github):
                pass
            self.webhooks_arrive()
            harness.run_until_idle()
        assert required(harness) == []
        assert disagreements(harness) == {}
        assert landable(harness) == set()
        harness.fake_github.calls.reset()
        self.everything_is_read_again()
        harness.run_until_idle()
        writes = harness.fake_github.calls.writes
        assert [(write["name"], write["headSha"], write["conclusion"]) for write in writes] == []
        self.webhook_queue.take()


@pytest.mark.slow(15)
@pytest.mark.parametrize("histories", [1, pytest.param(2, marks=pytest.mark.check)])
def test_no_interleaving_of_workers_leaves_a_wrong_check(
    harness: Harness, shared_database: psycopg.Connection[Any], histories: int
) -> None:
    explore(Interleavings, histories, steps=15, harness=harness, database=shared_database)
