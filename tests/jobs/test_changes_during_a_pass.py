"""Changes during a pass are not lost at the end of that pass."""

from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from time import monotonic, sleep
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from integrations.github import ErrorKind, GitHubError
from services.bypass_detection.detection import detect_bypasses
from services.core.unit_of_work import SYSTEM_CALLER
from services.core.work_queue import LEASE_DURATION
from services.installations.status import read_back_installation
from services.maintenance.resync import full_resync
from services.reconcile import reconciler
from services.reconcile.check_records import announce
from services.reconcile.check_writes import WriteResult, write_checks
from services.reconcile.evaluation import CheckUpdate, TextFacts, evaluate
from services.reconcile.heads import Head
from services.reconcile.leases import LeasedTransaction
from services.reconcile.outcomes import Progress, defer_checks
from tests.harness.concurrency import Task, eventually
from tests.harness.github_harness import Builder, Harness
from tests.jobs.passes import leased_pass
from tools.fake_github.model.records import PullRequest

PERIOD = timedelta(minutes=5)
DENIED = GitHubError(ErrorKind.PERMISSION, "Resource not accessible by integration")


def ask_of_everything(harness: Harness) -> None:
    installation_id = harness.installed.id
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        read_back_installation(uow, installation_id)


class TestDuringAPass:
    @pytest.mark.parametrize("reads_back", [False, True])
    def test_full_resync_during_a_pass_still_reads_back_afterwards(
        self, harness: Harness, build: Builder, *, reads_back: bool
    ) -> None:
        [pull] = build("web", pulls=1)
        harness.freeze()
        harness.run_until_idle()
        if reads_back:
            harness.request_read_back()
        harness.make_due()
        started = leased_pass(harness)
        heads = started.reading.mirror(started.reading.fetch())
        harness.report(pull.head_sha, "success")
        assert full_resync(harness.jobs, PERIOD)
        assert started._plan(heads) == []
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "failure"}

    def test_freeze_during_a_pass_is_not_enforced_by_its_end(self, harness: Harness, build: Builder) -> None:
        """The pass may have read before the freeze what is merged after it."""
        build("web", pulls=0)
        started = leased_pass(harness)
        fetched = started.reading.fetch()
        harness.freeze()
        assert started._plan(started.reading.mirror(fetched)) == []
        assert harness.sql("SELECT state FROM freeze_targets") == [("pending",)]
        harness.run_until_idle()
        assert harness.sql("SELECT state FROM freeze_targets") == [("applied",)]

    def test_read_back_requested_during_a_pass_happens_afterwards(self, harness: Harness, build: Builder) -> None:
        [pull] = build("web", pulls=1)
        harness.freeze()
        harness.run_until_idle()
        harness.make_due()
        started = leased_pass(harness)
        heads = started.reading.mirror(started.reading.fetch())
        harness.report(pull.head_sha, "success")
        harness.request_read_back()
        harness.make_due("wanted_generation = nextval('generations')")
        assert started._plan(heads) == []
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "failure"}

    def test_granted_permission_is_used_at_once_although_the_pass_was_refused(
        self, harness: Harness, build: Builder
    ) -> None:
        build("web", pulls=1)
        harness.freeze()
        started = leased_pass(harness)
        started.state.errors = dict.fromkeys(started.state.pending, DENIED)
        ask_of_everything(harness)
        started._end([])
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "failure"}

    def test_retry_during_a_failing_pass_runs_at_once(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.freeze()
        started = leased_pass(harness)
        started.state.errors = dict.fromkeys(started.state.pending, DENIED)
        harness.freeze()
        started._end([])
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "failure"}

    def test_branch_that_fails_before_it_is_read_is_still_read_back(self, harness: Harness, build: Builder) -> None:
        [pull] = build("web", pulls=1)
        harness.freeze()
        harness.run_until_idle()
        harness.report(pull.head_sha, "success")
        harness.full_resync()
        started = leased_pass(harness)
        started.state.errors = dict.fromkeys(started.state.pending, DENIED)
        started._end([])
        harness.make_due()
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "failure"}

    def test_deferred_branch_loses_its_rank_when_a_freeze_starts_meanwhile(
        self, harness: Harness, build: Builder
    ) -> None:
        build("web", pulls=1)
        started = leased_pass(harness)
        planned = started._plan(started.reading.mirror(started.reading.fetch()))
        harness.freeze()
        started._end(planned)
        assert harness.sql("SELECT deferred_rank, due_at <= clock_timestamp() FROM checks") == [(None, True)]


class TestWhileAllBranchesAreLocked:
    """A freeze of thousands of branches locks them for a moment: no worker busy-waits meanwhile."""

    def test_evaluation_from_before_a_pause_of_the_process_is_repeated(
        self, harness: Harness, build: Builder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        build("web", pulls=2)
        harness.run_until_idle()
        freeze, paused = harness.freeze(), 0.0
        begun = leased_pass(harness)
        heads = begun.reading.mirror(begun.reading.fetch())
        planned = deque(begun._plan(heads))
        harness.fake_github.calls.reset()

        def write_after_a_pause(*arguments: Any) -> list[WriteResult]:
            nonlocal paused
            if not paused:
                paused = reconciler.MAX_EVALUATION_AGE + 1
                harness.lift(freeze)
            return write_checks(*arguments)

        monkeypatch.setattr(reconciler, "write_checks", write_after_a_pause)
        monkeypatch.setattr(reconciler, "monotonic", lambda: monotonic() + paused)
        assert begun._write(planned)
        assert harness.fake_github.calls.writes == []
        assert begun._write(planned)
        monkeypatch.undo()
        begun._end(planned)
        harness.run_until_idle()
        assert {write["conclusion"] for write in harness.fake_github.calls.writes} <= {"success"}
        assert harness.conclusions() == {"acme/web#1": "success", "acme/web#2": "success"}

    def test_pass_whose_transaction_was_ended_is_taken_over_at_once(
        self, harness: Harness, build: Builder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        build("web", pulls=1)
        harness.run_until_idle()
        harness.freeze()

        def lose_the_connection(
            leased: LeasedTransaction, heads: Sequence[Head], texts: TextFacts
        ) -> list[CheckUpdate]:
            leased.uow.session.execute(text("SET LOCAL idle_in_transaction_session_timeout = 1"))
            sleep(0.1)
            return evaluate(leased, heads, texts)

        monkeypatch.setattr(reconciler, "evaluate", lose_the_connection)
        with pytest.raises(DBAPIError):
            harness.reconciler.run_pass()
        monkeypatch.undo()
        assert harness.reconciler.run_pass()
        assert harness.conclusions() == {"acme/web#1": "failure"}

    def test_worker_rests_while_all_branches_are_locked(self, harness: Harness, build: Builder) -> None:
        build("web")
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            uow.session.execute(text("SELECT FROM checks FOR UPDATE"))
            assert harness.reconciler.run_pass() is False
        assert harness.reconciler.run_pass() is True

    def test_bypass_detection_rests_while_all_branches_are_locked(self, harness: Harness, build: Builder) -> None:
        build("web")
        harness.run_until_idle()
        harness.sql("UPDATE branch_tips SET due_at = now() - interval '1 s', moved_since = now()")
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            uow.session.execute(text("SELECT FROM branch_tips FOR UPDATE"))
            assert detect_bypasses(harness.jobs, harness.github) is False


def test_freeze_and_record_do_not_deadlock(harness: Harness, build: Builder) -> None:
    """The record has locked the second branch and goes on to the first, which the freeze has just locked."""
    build("api", "web", pulls=1)
    first, second = sorted(branch.id for branch in harness.branches.values())
    started = leased_pass(harness)
    planned = {one.head.branch_id: one for one in started._plan(started.reading.mirror(started.reading.fetch()))}
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        announce(uow, [planned[second].head])
    sent = [WriteResult(planned[second], 1, None)]
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        uow.session.execute(text("SELECT FROM head_checks FOR UPDATE"))
        record = Task(lambda: started._record([planned[first]], sent))
        eventually(lambda: harness.sql(waiting) == [(1,)], during=record)
        freeze = Task(harness.freeze)
        eventually(lambda: harness.sql(waiting) == [(2,)], during=freeze)
    record.result()
    assert freeze.result()


class TestSecondReadBackAfterATakeover:
    """The worker that lost its lease may still write once, after the first read-back."""

    @pytest.fixture
    def pull(self, harness: Harness, build: Builder) -> PullRequest:
        [pull] = build("web", pulls=1)
        harness.freeze()
        harness.run_until_idle()
        harness.make_due("lease_token = 'lost'", "lease_until = clock_timestamp() - interval '1 second'")
        return pull

    def comes_late(self, harness: Harness, pull: PullRequest) -> None:
        """Let the former worker write, and time pass until it cannot any more."""
        harness.report(pull.head_sha, "success")
        harness.run_until_idle()
        harness.pass_time(LEASE_DURATION + timedelta(seconds=1))
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "failure"}

    def test_second_read_back_happens_after_a_takeover(self, harness: Harness, pull: PullRequest) -> None:
        harness.run_until_idle()
        self.comes_late(harness, pull)

    def test_second_read_back_happens_when_requested_during_the_first(
        self, harness: Harness, pull: PullRequest
    ) -> None:
        started = leased_pass(harness)
        heads = started.reading.mirror(started.reading.fetch())
        harness.make_due("wanted_generation = nextval('generations')")
        assert started._plan(heads) == []
        harness.run_until_idle()
        self.comes_late(harness, pull)

    def test_second_read_back_happens_when_requested_between_both(self, harness: Harness, pull: PullRequest) -> None:
        harness.run_until_idle()
        harness.make_due("wanted_generation = nextval('generations')")
        harness.run_until_idle()
        self.comes_late(harness, pull)

    def test_second_read_back_happens_when_the_first_is_deferred(self, harness: Harness, pull: PullRequest) -> None:
        started = leased_pass(harness)
        [check] = started.state.batch.checks
        with started.state.leased([check.id]) as leased:
            defer_checks(leased, [Progress(check, 1, 0)], leased.uow.now)
        harness.run_until_idle()
        self.comes_late(harness, pull)

    def test_second_read_back_is_the_last_one(self, harness: Harness, pull: PullRequest) -> None:
        harness.run_until_idle()
        self.comes_late(harness, pull)
        assert harness.sql("SELECT due_at FROM checks UNION SELECT at FROM read_backs") == [(None,)]
