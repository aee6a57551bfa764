"""I1, I2, I3 and I6 under whatever happens in whatever order: a state machine against the simulated GitHub.

Freezes begin and end, by hand and by schedule, exceptions are granted and revoked, people push, close, reopen, retarget
and merge, webhooks arrive late, twice or never, workers fail, die and come back late, checks are edited by hand.
Whenever everything has come to rest, each open head carries the verdict that the database gives; and no worker that is
in time ever sends a `success` to a head that is blocked.

`tests/faults/state_machines.py` says how to explore.
"""

import random
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from sqlalchemy import text

from models.queries import covering_freezes
from rules.errors import ServiceError
from rules.freezes.check_names import check_name
from rules.freezes.limits import FreezeLimits
from rules.rulesets.rulesets import desired_ruleset, ruleset_name
from services.core.unit_of_work import SYSTEM_CALLER
from services.enforcement.probes import probe_due
from services.maintenance.tasks import cover_remaining, end_freezes
from services.pull_request_exceptions.expiry import end_exceptions
from services.reconcile.check_writes import write_checks
from services.reconcile.leases import Turn, acquire
from services.reconcile.reconciler import Pass
from services.repositories import watches
from services.schedules.missed_windows import record_missed
from services.schedules.occurrence_start import start_windows
from tests.faults.state_machines import BASES, HarnessMachine, some
from tests.harness.github_harness import Harness
from tests.harness.pipeline import let_pass, revoke
from tests.harness.state_machines import explore
from tests.harness.webhook_queue import Verdicts, WebhookQueue, disagreements, full_resync, landable, work
from tests.jobs.passes import intend
from tools.fake_github.model.rulesets import create_ruleset, delete_ruleset

SCOPES: list[dict[str, Any]] = [
    {"type": "organization"},
    {"type": "organization", "branches": ["main"]},
    {"type": "glob", "patterns": ["acme/w*"]},
    {"type": "repositories", "repositories": ["acme/api"]},
    {"type": "repositories", "repositories": ["acme/web"], "branches": ["release/*"]},
    {"type": "branch", "repository": "acme/web", "branch": "release/1"},
    {"type": "branch", "repository": "acme/web", "branch": "release/2"},
    {"type": "branch", "repository": "acme/api", "branch": "release/1"},
    {"type": "branch", "repository": "acme/api", "branch": "main"},
]
PATTERN_CHECK = "change-freeze/release/*"


class Machine(HarnessMachine):
    """Everything that can happen to an organisation of two repositories."""

    named = ("api", "web")
    unwatched = ("develop",)
    unprotected = (("web", "release/2"),)
    proposed = ("main", "release/1")

    def __init__(self) -> None:
        self.harness.jobs.ports = self.harness.jobs.ports.having(FreezeLimits(2))
        super().__init__()
        self.late: list[tuple[Pass, list[Any]]] = []
        self.unreported: set[str] = set()
        """Commits with a check that the service does not know to have been written."""

    # --- the service ----------------------------------------------------------------------------------------------

    @rule(which=some, hours=st.sampled_from([None, 1, 3]))
    def freeze(self, which: int, hours: int | None) -> None:
        with self.harness.jobs.open(SYSTEM_CALLER) as uow:
            ends_at = uow.now + timedelta(hours=hours) if hours else None
        if len(self.running()) < 5:
            self._freeze(which, ends_at)

    def _freeze(self, which: int, ends_at: datetime | None) -> None:
        try:
            self.harness.freeze(SCOPES[which % len(SCOPES)], ends_at=ends_at)
        except ServiceError as error:
            if error.code != "no_targets_in_scope":  # nothing of that scope may be watched any more
                raise

    @precondition(lambda self: self.running())
    @rule(which=some)
    def lift(self, which: int) -> None:
        running = self.running()
        self.harness.lift(running[which % len(running)])

    @rule(which=some)
    def unwatch_or_watch_again(self, which: int) -> None:
        rows = self.harness.sql(
            "SELECT b.id, b.repository_id, b.name, b.unwatched_at IS NULL FROM watched_branches b "
            "WHERE b.name <> 'main' ORDER BY b.id"
        )
        branch_id, repository_id, name, watched = rows[which % len(rows)]
        with self.harness.jobs.open(SYSTEM_CALLER) as uow:
            frozen = branch_id in covering_freezes(uow.session, [branch_id], uow.now)
        with self.harness.unit() as uow:
            if not watched:
                watches.watch_branch(uow, repository_id, name)
            elif not frozen:
                watches.unwatch(uow, branch_id)

    @rule(minutes=st.sampled_from([1, 20, 70]))
    def pass_time(self, minutes: int) -> None:
        self.clock.offset += timedelta(minutes=minutes)

    @rule(which=some, minutes=st.sampled_from([-30, 10, 60]), hours=st.sampled_from([1, 3]))
    def plan_a_window(self, which: int, minutes: int, hours: int) -> None:
        self.plan(SCOPES[which % len(SCOPES)], minutes=minutes, hours=hours, most=3)

    @rule()
    def sweep(self) -> None:
        for chore in (start_windows, end_freezes, end_exceptions, cover_remaining, record_missed):
            chore(self.harness.jobs)

    @rule(which=some, minutes=st.sampled_from([None, 15, 65]), pin=st.booleans())
    def grant_an_exception(self, which: int, minutes: int | None, pin: bool) -> None:
        if (found := self.any_pull_request(which)) is None:
            return
        repository, pull = found
        name = f"{self.harness.fake_github.world.full_name(repository)}#{pull.number}"
        with suppress(ServiceError):
            let_pass(self.harness, name, minutes=minutes, pin=pin)

    @rule(which=some)
    def revoke_an_exception(self, which: int) -> None:
        rows = self.harness.sql("SELECT id FROM exceptions WHERE revoked_at IS NULL ORDER BY id")
        if rows:
            with suppress(ServiceError):
                revoke(self.harness, rows[which % len(rows)][0])

    @rule(passes=st.sampled_from([1, 9]))
    def work(self, passes: int) -> None:
        self.harness.fake_github.calls.reset()
        while passes and self.harness.reconciler.run_pass():
            passes -= 1
        self._no_success_where_frozen()

    # --- people at GitHub ----------------------------------------------------------------------------------

    @rule(which=some)
    def push(self, which: int) -> None:
        if (found := self.any_pull_request(which)) is not None:
            self.people.push(*found)

    @rule(which=some)
    def close(self, which: int) -> None:
        if (found := self.any_pull_request(which)) is not None:
            self.people.close(*found)

    @rule(which=some)
    def reopen(self, which: int) -> None:
        if (found := self.any_pull_request(which, "closed")) is not None:
            self.people.reopen(*found)

    @rule(which=some, base=st.sampled_from([*BASES, "develop"]))
    def retarget(self, which: int, base: str) -> None:
        if (found := self.any_pull_request(which)) is not None:
            self.people.retarget(*found, base)

    @rule(which=some, base=st.sampled_from([*BASES, "develop"]))
    def propose(self, which: int, base: str) -> None:
        repository = self.repositories[which % 2]
        if len(repository.pulls) <= 8:
            self.people.propose(repository, base)

    @rule(which=some, base=st.sampled_from(BASES))
    def propose_the_same_head_for_another_base(self, which: int, base: str) -> None:
        found = self.any_pull_request(which)
        if found is not None and len(found[0].pulls) <= 8:
            self.people.propose_the_same(*found, base)

    @rule(which=some)
    def merge(self, which: int) -> None:
        if (found := self.any_pull_request(which)) is not None:
            repository, pull = found
            self.harness.merge(self.harness.fake_github.world.full_name(repository), pull.number)

    @rule(which=some, conclusion=st.sampled_from(["success", "failure"]), of_pattern=st.booleans())
    def edit_a_check_by_hand(self, which: int, conclusion: str, *, of_pattern: bool) -> None:
        if (found := self.any_pull_request(which)) is not None:
            repository, pull = found
            name = PATTERN_CHECK if of_pattern and pull.base_ref != "main" else check_name(pull.base_ref)
            self.harness.report(pull.head_sha, conclusion, name, self.harness.fake_github.world.full_name(repository))
            self.all_delivered = False
            self.unreported.add(pull.head_sha)

    @rule(which=some)
    def a_rule_is_written_or_removed(self, which: int) -> None:
        """Have a release lose the rule of its own, or get one."""
        repository, branch = self.repositories[which % 2], BASES[1 + which // 2 % 2]
        world, person = self.harness.fake_github.world, self.people.actor
        with world.lock:
            rulesets = list(world.rules_of["Repository", repository.id].values())
            found = [ruleset for ruleset in rulesets if ruleset.name == ruleset_name(branch)]
            for ruleset in found:
                delete_ruleset(world, person, ruleset)
            if not found:
                body = desired_ruleset(check_name(branch), self.harness.fake_github.app_id)
                create_ruleset(world, person, "Repository", repository.id, body)

    @rule()
    def probe(self) -> None:
        probe_due(self.harness.jobs, self.harness.github)

    # --- between the two ------------------------------------------------------------------------------------------

    @rule(chance=st.randoms(use_true_random=False), twice=st.booleans())
    def webhooks_arrive(self, chance: random.Random, twice: bool) -> None:
        deliveries = self.webhook_queue.take() * (1 + twice)
        chance.shuffle(deliveries)
        self.webhook_queue.deliver(deliveries)

    @rule()
    def webhooks_are_lost(self) -> None:
        if self.webhook_queue.take():
            self.all_delivered = False

    @rule(kind=st.sampled_from(["error", "disconnect"]), after=st.booleans())
    def the_next_write_fails(self, kind: str, after: bool) -> None:
        self.harness.fake_github.faults.add(kind, "createCheckRun", after=after, count=1)

    @rule()
    def a_worker_dies(self) -> None:
        with self.harness.jobs.open(SYSTEM_CALLER) as uow:
            acquire(uow, Turn())

    @rule()
    def a_worker_is_paused_before_it_sends(self) -> None:
        with self.harness.jobs.open(SYSTEM_CALLER) as uow:
            batch = acquire(uow, Turn())
        if batch is None or batch.lease is None:
            return
        paused = Pass(self.harness.reconciler, batch, batch.lease, self.harness.github.client(batch.installation_id))
        planned = paused._plan(paused.reading.mirror(paused.reading.fetch()))
        self.late.append((paused, intend(paused, planned)))

    @rule(which=some)
    def a_worker_oversleeps_a_change(self, which: int) -> None:
        """Send an outdated check after another process has written the present one."""
        with self.harness.jobs.open(SYSTEM_CALLER) as uow:
            uow.session.execute(text("UPDATE checks SET due_at = :now"), {"now": uow.now})
        self.a_worker_is_paused_before_it_sends()
        running = self.running()
        if running:
            self.harness.lift(running[which % len(running)])
        else:
            self._freeze(which, None)
        self.clock.offset += timedelta(minutes=1)
        self.harness.run_until_idle()
        while self.late:
            self.a_paused_worker_sends(dies=False)

    @precondition(lambda self: self.late)
    @rule(dies=st.booleans())
    def a_paused_worker_sends(self, dies: bool) -> None:
        paused, decisions = self.late.pop(0)
        sent = write_checks(paused.state.client, decisions, "http://web.test") if decisions else []
        if not dies:
            paused._record([], sent)
            return
        # The race that is accepted: paused for longer than its lease, and killed right after it has sent.
        self.all_delivered = self.all_delivered and not sent
        self.unreported |= {result.update.head.key.sha for result in sent}

    # --- at rest --------------------------------------------------------------------------------------------------

    @rule()
    def come_to_rest(self) -> None:
        harness = self.harness
        harness.fake_github.faults.clear()
        self.webhook_queue = WebhookQueue(harness, self.webhook_queue.taken)
        while self.late:
            self.a_paused_worker_sends(dies=False)
        self.webhook_queue.run()
        for _ in range(2):  # leases run out, retries come due; what a lost lease left is processed again
            self.clock.offset += timedelta(minutes=45)
            self.sweep()
            work(harness)
        if not self.all_delivered:
            full_resync(harness)
            self.all_delivered = True
        while probe_due(harness.jobs, harness.github):
            work(harness)
        harness.read_rules()
        work(harness)
        harness.review_enforcement()
        assert disagreements(harness, self.unreported) == {}
        assert landable(harness, self.unreported) == set()
        self._receipts_are_complete()
        self._windows_are_settled()
        harness.fake_github.calls.reset()
        full_resync(harness)
        assert harness.fake_github.calls.writes == []
        self.webhook_queue.take()

    def _windows_are_settled(self) -> None:
        """Check that what was due has started, as a whole and once; or was skipped, or has passed."""
        with self.harness.jobs.open(SYSTEM_CALLER) as uow:
            now = uow.now
        due = "SELECT count(*) FROM occurrences WHERE starts_at <= :now AND started_at IS NULL AND skip_reason IS NULL"
        assert self.harness.sql(f"{due} AND missed_at IS NULL", now=now) == [(0,)]
        unlike = (
            "SELECT count(*) FROM occurrences o LEFT JOIN freezes f ON f.occurrence_id = o.id "
            "WHERE (o.started_at IS NULL) <> (f.id IS NULL) OR f.id <> o.freeze_id OR f.ends_at <> o.ends_at"
        )
        assert self.harness.sql(unlike) == [(0,)]
        assert self.harness.sql("SELECT count(*) FROM freezes WHERE targets_pending") == [(0,)]

    def teardown(self) -> None:
        self.come_to_rest()

    def _receipts_are_complete(self) -> None:
        unfinished = (
            "SELECT f.id, f.ended_at, t.state FROM freezes f JOIN freeze_targets t ON t.freeze_id = f.id "
            "WHERE t.state <> CASE WHEN f.ended_at IS NULL THEN 'applied' ELSE 'released' END "
            "OR CASE WHEN f.ended_at IS NULL THEN f.enforced_at ELSE f.released_at END IS NULL"
        )
        assert self.harness.sql(unfinished) == []
        assert self.harness.sql("SELECT id FROM checks WHERE wanted_generation > written_generation") == []

    def _no_success_where_frozen(self) -> None:
        """Check what the pass has just sent; nothing has changed in the database since."""
        rows = self.harness.sql(
            "SELECT r.github_id, p.number, p.head_sha FROM pull_requests p "
            "JOIN repositories r ON r.id = p.repository_id WHERE p.state = 'open'"
        )
        verdicts = Verdicts.read(self.harness)
        for write in self.harness.fake_github.calls.writes:
            repository, sha = self.harness.fake_github.world.repositories[write["repositoryId"]], write["headSha"]
            mirrored = [row.number for row in rows if (row.github_id, row.head_sha) == (repository.id, sha)]
            still_there = [repository.pulls[number] for number in mirrored if repository.pulls[number].head_sha == sha]
            blocked = verdicts.expected(repository, write["name"], still_there).get(sha, False)
            assert write["conclusion"] == "failure" or not blocked, write


@pytest.mark.slow(15)
@pytest.mark.parametrize("histories", [2, pytest.param(5, marks=pytest.mark.check)])
def test_every_open_head_shows_the_verdict_of_the_database_at_rest(
    harness: Harness, shared_database: psycopg.Connection[Any], histories: int
) -> None:
    explore(Machine, histories, steps=30, harness=harness, database=shared_database)
