"""Changes during a pass are not lost at the end of that pass."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import cast

import pytest
from sqlalchemy import text

from integrations.github import ErrorKind, GitHubError
from services.bypass_detection.detection import detect_bypasses
from services.core.unit_of_work import SYSTEM_CALLER
from services.installations.status import schedule_reread
from services.maintenance.tasks import full_resync
from services.reconcile.check_writes import WriteResult
from services.reconcile.leases import LEASE_DURATION
from services.reconcile.outcomes import Deferred, defer_branches
from services.reconcile.write_intents import mark_write_intents
from tests.jobs.conftest import Builder, Town
from tests.jobs.passes import leased_pass
from tests.services.conftest import MovedClock
from tools.fake_github.model import checks
from tools.fake_github.model.records import PullRequest
from tools.fake_github.model.world import Actor

PERIOD = timedelta(minutes=5)
DENIED = GitHubError(ErrorKind.PERMISSION, "Resource not accessible by integration")


def forge_a_success(town: Town, pull: PullRequest) -> None:
    """Write a success over our check, as anyone can who has the App's key."""
    repository = town.host.organization("acme").repository("web").record
    bot = Actor(town.host.world.accounts[town.host.app.bot_id], town.host.app_id)
    fields = {"name": "change-freeze/main", "head_sha": pull.head_sha, "conclusion": "success"}
    checks.create_check_run(town.host.world, bot, town.host.app_id, repository, fields)


def ask_of_everything(town: Town) -> None:
    installation_id = next(iter(town.host.world.installations))
    with town.jobs.open(SYSTEM_CALLER) as uow:
        schedule_reread(uow, installation_id)


class TestDuringAPass:
    @pytest.mark.parametrize("reads_back", [False, True])
    def test_full_resync_during_a_pass_still_reads_back_afterwards(
        self, town: Town, build: Builder, *, reads_back: bool
    ) -> None:
        [pull] = build("web", pulls=1)
        town.freeze()
        town.settle()
        town.make_due(f"read_back = {reads_back}")
        begun = leased_pass(town)
        heads = begun._gather(begun._fetch())
        forge_a_success(town, pull)
        assert full_resync(town.jobs, PERIOD)
        assert begun._plan(heads) == []
        town.settle()
        assert town.conclusions() == {"acme/web#1": "failure"}

    def test_read_back_requested_during_a_pass_happens_afterwards(self, town: Town, build: Builder) -> None:
        [pull] = build("web", pulls=1)
        town.freeze()
        town.settle()
        town.make_due()
        begun = leased_pass(town)
        heads = begun._gather(begun._fetch())
        forge_a_success(town, pull)
        town.sql(
            "UPDATE watched_branches SET read_back = true, wanted_generation = wanted_generation + 1, "
            "due_at = date_trunc('milliseconds', clock_timestamp())"
        )
        assert begun._plan(heads) == []
        town.settle()
        assert town.conclusions() == {"acme/web#1": "failure"}

    def test_granted_permission_is_used_at_once_although_the_pass_was_refused(self, town: Town, build: Builder) -> None:
        build("web", pulls=1)
        town.freeze()
        begun = leased_pass(town)
        begun.errors = dict.fromkeys(begun.pending, DENIED)
        ask_of_everything(town)
        begun._end([])
        town.settle()
        assert town.conclusions() == {"acme/web#1": "failure"}

    def test_retry_during_a_failing_pass_runs_at_once(self, town: Town, build: Builder) -> None:
        build("web", pulls=1)
        town.freeze()
        begun = leased_pass(town)
        begun.errors = dict.fromkeys(begun.pending, DENIED)
        town.freeze()
        begun._end([])
        town.settle()
        assert town.conclusions() == {"acme/web#1": "failure"}

    def test_branch_that_fails_before_it_is_read_is_still_read_back(self, town: Town, build: Builder) -> None:
        [pull] = build("web", pulls=1)
        town.freeze()
        town.settle()
        forge_a_success(town, pull)
        town.look_at_everything()
        begun = leased_pass(town)
        begun.errors = dict.fromkeys(begun.pending, DENIED)
        begun._end([])
        town.make_due()
        town.settle()
        assert town.conclusions() == {"acme/web#1": "failure"}

    def test_deferred_branch_loses_its_rank_when_a_freeze_starts_meanwhile(self, town: Town, build: Builder) -> None:
        build("web", pulls=1)
        begun = leased_pass(town)
        planned = begun._plan(begun._gather(begun._fetch()))
        town.freeze()
        begun._end(planned)
        assert town.sql("SELECT deferred_rank, due_at <= clock_timestamp() FROM watched_branches") == [(None, True)]


class TestWhileAllBranchesAreLocked:
    """A freeze of thousands of branches locks them for a moment: no worker busy-waits meanwhile."""

    def test_worker_rests_while_all_branches_are_locked(self, town: Town, build: Builder) -> None:
        build("web")
        with town.jobs.open(SYSTEM_CALLER) as uow:
            uow.session.execute(text("SELECT FROM watched_branches FOR UPDATE"))
            assert town.reconciler.run_pass() is False
        assert town.reconciler.run_pass() is True

    def test_bypass_detection_rests_while_all_branches_are_locked(self, town: Town, build: Builder) -> None:
        build("web")
        town.settle()
        town.sql("UPDATE branch_tips SET due_at = now() - interval '1 s', moved_since = now()")
        with town.jobs.open(SYSTEM_CALLER) as uow:
            uow.session.execute(text("SELECT FROM branch_tips FOR UPDATE"))
            assert detect_bypasses(town.jobs, town.github) is False


def test_freeze_and_record_do_not_deadlock(town: Town, build: Builder) -> None:
    """The record has locked the second branch and goes on to the first, which the freeze has just locked."""
    build("api", "web", pulls=1)
    first, second = sorted(branch.id for branch in town.branches.values())
    begun = leased_pass(town)
    planned = {one.head.branch_id: one for one in begun._plan(begun._gather(begun._fetch()))}
    with town.jobs.open(SYSTEM_CALLER) as uow:
        mark_write_intents(uow, [planned[second].head])
    sent = [WriteResult(planned[second], 1, None)]
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with ThreadPoolExecutor() as threads:
        with town.jobs.open(SYSTEM_CALLER) as uow:
            uow.session.execute(text("SELECT FROM head_checks FOR UPDATE"))
            record = threads.submit(begun._record, [planned[first]], sent)
            while town.sql(waiting) == [(0,)]:
                assert not record.done()
            freeze = threads.submit(town.freeze)
            while town.sql(waiting) == [(1,)]:
                assert not freeze.done()
        assert record.result(30) is None
        assert freeze.result(30)


class TestSecondReadBackAfterATakeover:
    """The worker that lost its lease may still write once, after the first read-back."""

    @pytest.fixture
    def pull(self, town: Town, build: Builder) -> PullRequest:
        [pull] = build("web", pulls=1)
        town.freeze()
        town.settle()
        town.make_due("lease_token = 'lost'", "lease_until = clock_timestamp() - interval '1 second'")
        return pull

    def comes_late(self, town: Town, pull: PullRequest) -> None:
        """Let the former worker write, and time pass until it cannot any more."""
        forge_a_success(town, pull)
        town.settle()
        cast(MovedClock, town.jobs.clock).ahead += LEASE_DURATION + timedelta(seconds=1)
        town.settle()
        assert town.conclusions() == {"acme/web#1": "failure"}

    def test_second_read_back_happens_after_a_takeover(self, town: Town, pull: PullRequest) -> None:
        town.settle()
        self.comes_late(town, pull)

    def test_second_read_back_happens_when_requested_during_the_first(self, town: Town, pull: PullRequest) -> None:
        begun = leased_pass(town)
        heads = begun._gather(begun._fetch())
        town.make_due("wanted_generation = wanted_generation + 1")
        assert begun._plan(heads) == []
        town.settle()
        self.comes_late(town, pull)

    def test_second_read_back_happens_when_requested_between_both(self, town: Town, pull: PullRequest) -> None:
        town.settle()
        town.make_due("wanted_generation = wanted_generation + 1")
        town.settle()
        self.comes_late(town, pull)

    def test_second_read_back_happens_when_the_first_is_deferred(self, town: Town, pull: PullRequest) -> None:
        begun = leased_pass(town)
        [branch] = begun.batch.branches
        with begun._leased([branch.id]) as leased:
            defer_branches(leased, [Deferred(branch, None, 1, 0)], leased.uow.now)
        town.settle()
        self.comes_late(town, pull)

    def test_second_read_back_is_the_last_one(self, town: Town, pull: PullRequest) -> None:
        town.settle()
        self.comes_late(town, pull)
        assert town.sql("SELECT due_at, reread_at FROM watched_branches") == [(None, None)]
