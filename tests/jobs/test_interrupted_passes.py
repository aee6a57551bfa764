"""Workers that lose their leases during a pass, or die after a write: nothing wrong stays, nothing is written twice."""

from collections import deque
from typing import NoReturn

import pytest

from services.core.unit_of_work import SYSTEM_CALLER
from services.core.work_queue import LeaseLostError
from services.reconcile import reconciler
from services.reconcile.check_writes import write_checks
from services.reconcile.leases import acquire
from tests.harness.github_harness import Builder, Harness
from tests.jobs.passes import evaluated_pass, leased_pass


class TestLeases:
    def test_late_write_is_not_recorded_and_is_read_back(self, harness: Harness, build: Builder) -> None:
        """A worker is paused before it sends; meanwhile the freeze it knew of is lifted and written by another."""
        build("web", pulls=1)
        harness.run_until_idle()
        freeze = harness.freeze()
        paused, late = evaluated_pass(harness)
        harness.sql("UPDATE watched_branches SET lease_until = clock_timestamp() - interval '1 second'")
        harness.lift(freeze)
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "success"}
        sent = write_checks(paused.client, late, "http://web.test")
        assert harness.conclusions() == {"acme/web#1": "failure"}
        paused._record([], sent)
        assert harness.sql("SELECT conclusion FROM head_checks") == [("success",)]
        assert harness.sql("SELECT read_back FROM watched_branches") == [(True,)]
        harness.run_until_idle()
        assert harness.conclusions() == {"acme/web#1": "success"}

    def test_branch_without_a_lease_is_not_finished(self, harness: Harness, build: Builder) -> None:
        """A worker's lease expires during its pass, and no other worker has acquired the branch yet."""
        build("web", pulls=1)
        harness.run_until_idle()
        harness.freeze()
        asleep = leased_pass(harness)
        heads = asleep._gather(asleep._fetch())
        harness.sql("UPDATE watched_branches SET lease_until = clock_timestamp() - interval '1 second'")
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
        heads = asleep._gather(asleep._fetch())
        harness.sql(
            "UPDATE watched_branches SET lease_until = clock_timestamp() - interval '1 second' WHERE id = :lost",
            lost=harness.branches["acme/web"].id,
        )
        kept = harness.branches["acme/api"].id
        assert {update.head.branch_id for update in asleep._plan(heads)} == {kept}

    def test_expired_lease_is_taken_over_and_read_back_twice(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.freeze()
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            assert acquire(uow) is not None
        assert harness.run_until_idle() == 0
        harness.sql("UPDATE watched_branches SET lease_until = clock_timestamp() - interval '1 second'")
        successor = leased_pass(harness)
        assert [branch.read_back for branch in successor.batch.branches] == [True]
        successor.run()
        assert harness.conclusions() == {"acme/web#1": "failure"}
        [[again]] = harness.sql("SELECT due_at = reread_at AND due_at > clock_timestamp() FROM watched_branches")
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

    def test_success_found_with_an_unknown_text_stays_unconfirmed_until_it_is_recorded(
        self, harness: Harness, build: Builder
    ) -> None:
        """The worker that finds the success dies before it writes the text; then somebody pushes."""
        pull, *_ = build("web", pulls=1)
        old = pull.head_sha
        _send_and_die(harness)
        _expire_leases(harness)
        finder = leased_pass(harness)
        finder._plan(finder._gather(finder._fetch()))
        _expire_leases(harness)
        body = {"message": "more", "content": "bW9yZQ==", "branch": pull.head_ref}
        assert harness.person("PUT", "/repos/acme/web/contents/more.txt", body).status_code in {200, 201}
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
        planned = deque(finder._plan(finder._gather(finder._fetch())))
        assert [update.conclusion for update in planned] == ["failure"]
        harness.lift(freeze)
        assert finder._write(planned)
        assert harness.conclusions() == {"acme/web#1": "success"}
        assert harness.sql("SELECT conclusion, unconfirmed FROM head_checks") == [("success", False)]


def _send_and_die(harness: Harness) -> None:
    """Send the verdicts of what is due as a worker that dies before it records them."""
    dying, decisions = evaluated_pass(harness)
    write_checks(dying.client, decisions, "http://web.test")
    assert set(harness.conclusions().values()) == {"success"}


def _expire_leases(harness: Harness) -> None:
    harness.sql("UPDATE watched_branches SET lease_until = clock_timestamp() - interval '1 second'")


def _shown_on(harness: Harness, sha: str) -> str | None:
    """Return the conclusion that GitHub shows on a commit of the repository `web`."""
    [check] = harness.person("GET", f"/repos/acme/web/commits/{sha}/check-runs").json()["check_runs"]
    return str(check["conclusion"])
