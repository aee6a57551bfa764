"""Workers that lose their leases during a pass, or die after a write: nothing wrong stays, nothing is written twice."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NoReturn

import pytest

from integrations.github import ErrorKind, GitHubError
from services.core.unit_of_work import SYSTEM_CALLER
from services.core.work_queue import LEASE_DURATION, LeaseLostError
from services.reconcile import reconciler
from services.reconcile.check_records import record_writes
from services.reconcile.check_writes import WriteResult, write_checks
from services.reconcile.evaluation import CheckUpdate
from services.reconcile.leases import Turn, acquire
from services.reconcile.reconciler import Pass
from tests.harness.github_harness import Builder, Harness
from tests.harness.people import push_to_head
from tests.jobs.passes import evaluated_pass, leased_pass
from tools.fake_github.model.records import PullRequest

Updates = Sequence[CheckUpdate]


class TestLeases:
    def test_late_write_is_not_recorded_and_is_read_back(self, harness: Harness, build: Builder) -> None:
        """A worker is paused before it sends; meanwhile the freeze it knew of is lifted and written by another."""
        build("web", pulls=1)
        harness.run_until_idle()
        freeze = harness.freeze()
        paused, late = evaluated_pass(harness)
        harness.sql("UPDATE checks SET lease_until = clock_timestamp() - interval '1 second'")
        harness.lift(freeze)
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "success"}
        sent = write_checks(paused.state.client, late, "http://web.test")
        assert harness.conclusions() == {"acme/web#1": "failure"}
        paused._record([], sent)
        assert harness.sql("SELECT conclusion FROM head_checks") == [("success",)]
        assert (True,) in harness.sql("SELECT at <= clock_timestamp() FROM read_backs")
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "success"}

    def test_older_evaluation_is_not_recorded_over_a_newer_one(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        worker, [update] = evaluated_pass(harness)
        older = replace(update, conclusion="failure", evaluation=update.evaluation - 1)
        with worker.state.leased(worker.state.pending) as leased:
            record_writes(leased, [(update, 1)])
            record_writes(leased, [(older, 2)])
        assert harness.sql("SELECT conclusion, check_run_id FROM head_checks") == [("success", 1)]

    def test_branch_without_a_lease_is_not_finished(self, harness: Harness, build: Builder) -> None:
        """A worker's lease expires during its pass, and no other worker has acquired the branch yet."""
        build("web", pulls=1)
        harness.run_until_idle()
        harness.freeze()
        asleep = leased_pass(harness)
        heads = asleep.reading.mirror(asleep.reading.fetch())
        harness.sql("UPDATE checks SET lease_until = clock_timestamp() - interval '1 second'")
        with pytest.raises(LeaseLostError):
            asleep._plan(heads)
        assert harness.sql("SELECT state FROM freeze_targets") == [("pending",)]
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "failure"}
        assert harness.sql("SELECT state FROM freeze_targets") == [("applied",)]

    def test_head_of_a_lost_branch_is_left_to_its_new_holder(self, harness: Harness, build: Builder) -> None:
        build("web", "api", pulls=1)
        harness.run_until_idle()
        harness.freeze()
        asleep = leased_pass(harness)
        heads = asleep.reading.mirror(asleep.reading.fetch())
        harness.sql(
            "UPDATE checks SET lease_until = clock_timestamp() - interval '1 second' WHERE branch_id = :lost",
            lost=harness.branches["acme/web"].id,
        )
        kept = harness.branches["acme/api"].id
        assert {update.head.branch_id for update in asleep._plan(heads)} == {kept}

    def test_head_whose_lease_is_lost_after_its_evaluation_is_not_written(
        self, harness: Harness, build: Builder
    ) -> None:
        build("web", "api", pulls=1)
        harness.run_until_idle()
        harness.freeze()
        asleep = leased_pass(harness)
        planned = deque(asleep._plan(asleep.reading.mirror(asleep.reading.fetch())))
        lost = harness.branches["acme/web"]
        expire = "UPDATE checks SET lease_until = clock_timestamp() - interval '1 second' WHERE branch_id = :lost"
        harness.sql(expire, lost=lost.id)
        harness.fake_github.calls.reset()
        asleep._write(planned)
        assert [write["conclusion"] for write in harness.fake_github.calls.writes] == ["failure"]
        assert harness.conclusions() == {"acme/web#1": "success", "acme/api#1": "failure"}

    def test_expired_lease_is_taken_over_and_read_back_twice(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.freeze()
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            assert acquire(uow, Turn()) is not None
        assert harness.run_until_idle() == 0
        harness.sql("UPDATE checks SET lease_until = clock_timestamp() - interval '1 second'")
        successor = leased_pass(harness)
        assert [branch.read_back for branch in successor.state.batch.branches] == [True]
        successor.run()
        assert harness.conclusions() == {"acme/web#1": "failure"}
        [[again]] = harness.sql(
            "SELECT due_at = at AND due_at > clock_timestamp() FROM checks JOIN read_backs ON check_id = id"
        )
        assert again


class TestACrash:
    def test_unrecorded_write_is_read_back_and_not_repeated(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=3)
        harness.run_until_idle()
        harness.freeze()
        before = harness.sql("SELECT repository_id, head_sha, conclusion, evaluation, summary_hash FROM head_checks")
        harness.run_until_idle()
        for repository, sha, conclusion, evaluation, words in before:  # as if the worker had died before its record
            harness.sql(
                "UPDATE head_checks SET conclusion = :conclusion, evaluation = :evaluation, summary_hash = :words "
                "WHERE repository_id = :repository AND head_sha = :sha",
                conclusion=conclusion,
                evaluation=evaluation,
                words=words,
                repository=repository,
                sha=sha,
            )
        harness.fake_github.calls.reset()
        harness.full_resync()
        harness.run_until_idle()
        assert harness.fake_github.calls.writes == []
        assert harness.sql("SELECT DISTINCT conclusion, evaluation > 1 FROM head_checks") == [("failure", True)]

    def test_success_that_may_have_been_sent_is_unconfirmed(
        self, harness: Harness, build: Builder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        build("web", pulls=1)
        freeze = harness.freeze()
        harness.run_until_idle()
        harness.lift(freeze)

        def die(*_: object) -> NoReturn:
            raise KeyboardInterrupt

        monkeypatch.setattr(reconciler, "write_checks", die)
        with pytest.raises(KeyboardInterrupt):
            harness.reconciler.run_pass()
        assert harness.sql("SELECT conclusion, unconfirmed FROM head_checks") == [("failure", True)]

    def test_outdated_text_is_written_although_the_verdict_stands(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.freeze()
        harness.run_until_idle()
        harness.freeze()
        harness.fake_github.calls.reset()
        harness.full_resync()
        harness.run_until_idle()
        assert len(harness.fake_github.calls.writes) == 1


class TestReadBack:
    """A `success` was sent and never recorded: only the write intent tells what GitHub may show."""

    def test_success_with_an_unknown_text_is_unconfirmed_until_recorded(self, harness: Harness, build: Builder) -> None:
        """The worker that finds the success dies before it writes the text; then somebody pushes."""
        pull, *_ = build("web", pulls=1)
        old = pull.head_sha
        _send_and_die(harness)
        _expire_leases(harness)
        finder = leased_pass(harness)
        finder._plan(finder.reading.mirror(finder.reading.fetch()))
        _expire_leases(harness)
        push_to_head(harness)
        harness.run_until_idle()
        assert _shown_on(harness, old) == "failure"
        assert harness.conclusions() == {"acme/web#1": "success"}

    def test_success_that_becomes_right_before_it_is_overwritten_is_recorded(
        self, harness: Harness, build: Builder
    ) -> None:
        """A freeze is lifted between the reading and the write that would have blocked the head."""
        build("web", pulls=1)
        lifted = harness.freeze()
        harness.run_until_idle()
        harness.lift(lifted)
        _send_and_die(harness)
        _expire_leases(harness)
        freeze = harness.freeze()
        finder = leased_pass(harness)
        planned = deque(finder._plan(finder.reading.mirror(finder.reading.fetch())))
        assert [update.conclusion for update in planned] == ["failure"]
        harness.lift(freeze)
        assert finder._write(planned)
        assert harness.conclusions() == {"acme/web#1": "success"}
        assert harness.sql("SELECT conclusion FROM head_checks") == [("success",)]
        finder._end(planned)
        for _ in range(2):  # the call of the dead worker, as it were, and then that of its successor
            _let_calls_end(harness)
        assert harness.sql("SELECT conclusion, unconfirmed FROM head_checks") == [("success", False)]


class TestALateCall:
    """A worker is gone, or has lost its connection, while its call with a `success` is still under way."""

    @pytest.fixture
    def pull(self, harness: Harness, build: Builder) -> PullRequest:
        """Return a pull request that is blocked; the freeze has just been lifted."""
        [pull] = build("web", pulls=1)
        freeze = harness.freeze()
        harness.run_until_idle()
        harness.lift(freeze)
        return pull

    def arrives_on_a_superseded_head(self, harness: Harness, pull: PullRequest, dead: Pass, sent: Updates) -> None:
        """Have a push supersede the head, then the call arrive, and require that its `success` does not stay."""
        old = pull.head_sha
        push_to_head(harness)
        harness.make_due()
        harness.run_until_idle()
        write_checks(dead.state.client, sent, "http://web.test")
        assert _shown_on(harness, old) == "success"
        _let_calls_end(harness)
        assert _shown_on(harness, old) == "failure"
        assert harness.conclusions() == {"acme/web#1": "failure"}
        assert harness.sql("SELECT DISTINCT unconfirmed FROM head_checks") == [(False,)]

    def test_success_does_not_stay_after_its_successor_has_read_the_head(
        self, harness: Harness, pull: PullRequest
    ) -> None:
        dead, sent = evaluated_pass(harness)
        _expire_leases(harness)
        harness.freeze()
        harness.run_until_idle()
        self.arrives_on_a_superseded_head(harness, pull, dead, sent)

    def test_success_does_not_stay_after_its_successor_has_written_the_head(
        self, harness: Harness, pull: PullRequest
    ) -> None:
        dead, sent = evaluated_pass(harness)
        _expire_leases(harness)
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "success"}
        harness.freeze()
        harness.run_until_idle()
        self.arrives_on_a_superseded_head(harness, pull, dead, sent)

    def test_success_does_not_stay_after_its_sender_has_lost_the_answer(
        self, harness: Harness, pull: PullRequest
    ) -> None:
        sender, sent = evaluated_pass(harness)
        self._lose_the_answer(sender, sent)
        harness.freeze()
        harness.run_until_idle()
        self.arrives_on_a_superseded_head(harness, pull, sender, sent)

    def test_failure_does_not_stay_after_its_sender_has_lost_the_answer(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.run_until_idle()
        freeze = harness.freeze()
        sender, sent = evaluated_pass(harness)
        self._lose_the_answer(sender, sent)
        harness.lift(freeze)
        harness.run_until_idle()
        write_checks(sender.state.client, sent, "http://web.test")
        assert harness.conclusions() == {"acme/web#1": "failure"}
        _let_calls_end(harness)
        assert harness.conclusions() == {"acme/web#1": "success"}

    def test_head_is_not_written_again_while_a_success_may_arrive(self, harness: Harness, pull: PullRequest) -> None:
        evaluated_pass(harness)
        _expire_leases(harness)
        harness.freeze()
        harness.fake_github.calls.reset()
        for _ in range(3):
            harness.make_due()
            harness.run_until_idle()
        _let_calls_end(harness)
        assert len(harness.fake_github.calls.writes) == 1, "the text of the second freeze"
        assert harness.sql("SELECT due_at FROM checks UNION SELECT at FROM read_backs") == [(None,)]

    @staticmethod
    def _lose_the_answer(sender: Pass, sent: Updates) -> None:
        error = GitHubError(ErrorKind.UNAVAILABLE, "GitHub closed the connection", maybe_applied=True)
        sender._record([], [WriteResult(update, None, error) for update in sent])
        sender._end([])


def _let_calls_end(harness: Harness) -> None:
    """Have so much time pass that every call has ended, and do what is due then."""
    harness.pass_time(LEASE_DURATION + timedelta(seconds=1))
    harness.run_until_idle()


def _send_and_die(harness: Harness) -> None:
    """Send the verdicts of what is due as a worker that dies before it records them."""
    dying, decisions = evaluated_pass(harness)
    write_checks(dying.state.client, decisions, "http://web.test")
    assert set(harness.conclusions().values()) == {"success"}


def _expire_leases(harness: Harness) -> None:
    harness.sql("UPDATE checks SET lease_until = clock_timestamp() - interval '1 second'")


def _shown_on(harness: Harness, sha: str) -> str | None:
    """Return the conclusion that GitHub shows on a commit of the repository `web`."""
    [check] = harness.person("GET", f"/repos/acme/web/commits/{sha}/check-runs").json()["check_runs"]
    return str(check["conclusion"])


class TestUpgrade:
    def test_migration_that_adds_a_column_fails_no_pass(self, harness: Harness, build: Builder) -> None:
        """A worker of this release has prepared its statements when the next release adds a column."""
        build("web", pulls=1)
        for _ in range(10):  # a statement is prepared when it has run five times on its connection
            harness.lift(harness.freeze())
            harness.run_until_idle()
        for table in ("head_checks", "checks", "watched_branches", "pull_requests", "freezes", "freeze_targets"):
            harness.sql(f"ALTER TABLE {table} ADD COLUMN of_the_next_release integer")
        harness.freeze()
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "failure"}
