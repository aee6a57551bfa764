"""The reconciler against a code host that really refuses and accepts merges."""

from datetime import timedelta

import pytest

from integrations.github import GitHubError
from models.repositories import Repository, WatchedBranch
from services.core.unit_of_work import SYSTEM_CALLER
from services.core.work_queue import LeaseLostError
from services.github_access.pauses import pause_installation
from services.reconcile.check_writes import write_checks
from services.reconcile.leases import acquire
from tests import factories
from tests.jobs.conftest import Builder, Town
from tests.jobs.passes import evaluated_pass, leased_pass
from tools.fake_github.model import checks
from tools.fake_github.model.records import PullRequest
from tools.fake_github.model.world import Actor


def share_a_head(town: Town, build: Builder) -> tuple[PullRequest, WatchedBranch]:
    """Return a pull request with the head of acme/web#1, and its base: another branch, with the check of `main`."""
    pull, *_ = build("web", pulls=1)
    web = town.host.organization("acme").repository("web")
    web.branch("release/8")
    shared = web.pull_request(base="release/8", sharesHeadWith=pull.number)
    assert shared.head_sha == pull.head_sha
    repository = town.session.get_one(Repository, town.branches["acme/web"].repository_id)
    given = {"check_name": "change-freeze/main", "due_at": factories.now()}
    other = factories.branch(town.session, repository, "release/8", **given)
    town.session.commit()
    return shared, other


class TestAFreeze:
    def test_freeze_blocks_every_open_pull_request_until_it_is_lifted(self, town: Town, build: Builder) -> None:
        first, _second = build("web")
        town.settle()
        assert set(town.conclusions().values()) == {"success"}
        freeze = town.freeze()
        town.settle()
        assert set(town.conclusions().values()) == {"failure"}
        refused = town.merge("acme/web", first.number)
        assert refused.status_code == 405
        assert "change-freeze/main" in refused.json()["message"]
        town.lift(freeze)
        town.settle()
        assert town.merge("acme/web", first.number).status_code == 200

    def test_check_of_a_freeze_says_why_and_until_when(self, town: Town, build: Builder) -> None:
        build("web", pulls=1)
        freeze = town.freeze()
        town.settle()
        head = town.sql("SELECT head_sha FROM pull_requests")[0][0]
        [check] = town.person("GET", f"/repos/acme/web/commits/{head}/check-runs").json()["check_runs"]
        assert check["output"]["title"] == "Merging into main is frozen until it is lifted"
        assert freeze in check["output"]["summary"]
        assert "Release 4.2 is being rolled out" in check["output"]["summary"]

    def test_freeze_records_when_it_was_enforced_and_released(self, town: Town, build: Builder) -> None:
        build("api", "web")
        freeze = town.freeze()
        town.settle()
        [[enforced, released]] = town.sql("SELECT enforced_at IS NOT NULL, released_at IS NOT NULL FROM freezes")
        assert (enforced, released) == (True, False)
        assert town.sql("SELECT DISTINCT state, heads_total, heads_written FROM freeze_targets") == [("applied", 2, 2)]
        town.lift(freeze)
        town.settle()
        assert town.sql("SELECT released_at IS NOT NULL FROM freezes") == [(True,)]
        assert town.sql("SELECT DISTINCT state FROM freeze_targets") == [("released",)]

    def test_lifting_a_freeze_keeps_what_another_one_covers_blocked(self, town: Town, build: Builder) -> None:
        build("web")
        first, _second = town.freeze(), town.freeze()
        town.settle()
        town.lift(first)
        town.settle()
        assert set(town.conclusions().values()) == {"failure"}
        assert town.sql("SELECT released_at IS NOT NULL FROM freezes WHERE id = :id", id=first) == [(True,)]

    def test_freeze_of_many_repositories_takes_a_tenth_of_a_call_per_head(self, town: Town, build: Builder) -> None:
        build(*(f"service-{number}" for number in range(50)), pulls=1)
        town.settle()
        town.host.calls.reset()
        town.freeze()
        town.settle()
        assert set(town.conclusions().values()) == {"failure"}
        assert town.host.calls.total <= 5


class TestAtRest:
    def test_nothing_is_written_twice_at_rest(self, town: Town, build: Builder) -> None:
        build("web")
        town.settle()
        town.host.calls.reset()
        town.look_at_everything()
        town.settle()
        assert not town.host.calls.writes

    def test_full_resync_corrects_a_check_that_was_edited_by_hand(self, town: Town, build: Builder) -> None:
        pull, *_ = build("web", pulls=1)
        town.freeze()
        town.settle()
        repository = town.host.organization("acme").repository("web").record
        bot = Actor(town.host.world.accounts[town.host.app.bot_id], town.host.app_id)
        fields = {"name": "change-freeze/main", "head_sha": pull.head_sha, "conclusion": "success"}
        checks.create_check_run(town.host.world, bot, town.host.app_id, repository, fields)
        assert town.conclusions() == {"acme/web#1": "success"}
        town.look_at_everything()
        town.settle()
        assert town.conclusions() == {"acme/web#1": "failure"}


class TestHeads:
    def test_reopened_pull_request_cannot_be_merged_during_a_freeze(self, town: Town, build: Builder) -> None:
        pull, _other = build("web")
        town.settle()
        town.person("PATCH", f"/repos/acme/web/pulls/{pull.number}", {"state": "closed"})
        town.make_due("wanted_generation = wanted_generation + 1")
        town.settle()
        town.freeze()
        town.settle()
        town.person("PATCH", f"/repos/acme/web/pulls/{pull.number}", {"state": "open"})
        assert town.merge("acme/web", pull.number).status_code == 405

    def test_new_head_gets_a_verdict_and_the_old_one_is_demoted(self, town: Town, build: Builder) -> None:
        pull, *_ = build("web", pulls=1)
        town.settle()
        old = pull.head_sha
        body = {"message": "more", "content": "bW9yZQ==", "branch": pull.head_ref}
        assert town.person("PUT", "/repos/acme/web/contents/more.txt", body).status_code in {200, 201}
        town.make_due("wanted_generation = wanted_generation + 1")
        town.settle()
        assert town.conclusions() == {"acme/web#1": "success"}
        rows = dict(town.sql("SELECT head_sha, conclusion FROM head_checks"))
        assert rows[old] == "failure"
        assert len(rows) == 2

    def test_head_shared_by_two_bases_is_blocked_if_either_is_frozen(self, town: Town, build: Builder) -> None:
        _shared, other = share_a_head(town, build)
        town.settle()
        freeze = town.freeze({"type": "branch", "branchId": other.id})
        town.settle()
        assert town.conclusions()["acme/web#1"] == "failure"
        town.lift(freeze)
        town.settle()
        assert town.conclusions()["acme/web#1"] == "success"

    def test_shared_head_is_released_when_its_frozen_pull_request_closes(self, town: Town, build: Builder) -> None:
        """The frozen base is looked at, the other one is not; the check was written on account of the other one."""
        shared, other = share_a_head(town, build)
        town.freeze({"type": "branch", "branchId": other.id})
        town.settle()
        town.sql("UPDATE head_checks SET branch_id = :main", main=town.branches["acme/web"].id)
        assert town.conclusions()["acme/web#1"] == "failure"
        town.person("PATCH", f"/repos/acme/web/pulls/{shared.number}", {"state": "closed"})
        town.sql(
            "UPDATE watched_branches SET due_at = date_trunc('milliseconds', clock_timestamp()), "
            "wanted_generation = wanted_generation + 1 WHERE id = :id",
            id=other.id,
        )
        town.settle()
        assert town.conclusions()["acme/web#1"] == "success"

    def test_unconfirmed_success_on_a_superseded_head_is_demoted(self, town: Town, build: Builder) -> None:
        """The worker dies between sending and recording; meanwhile the pull request is closed."""
        pull, *_ = build("web", pulls=1)
        dying, decisions = evaluated_pass(town)
        write_checks(dying.client, decisions, "http://web.test")
        assert town.conclusions() == {"acme/web#1": "success"}
        town.person("PATCH", f"/repos/acme/web/pulls/{pull.number}", {"state": "closed"})
        town.sql("UPDATE watched_branches SET lease_until = clock_timestamp() - interval '1 second'")
        town.freeze()
        town.settle()
        town.person("PATCH", f"/repos/acme/web/pulls/{pull.number}", {"state": "open"})
        assert town.merge("acme/web", pull.number).status_code == 405


class TestFaults:
    @pytest.mark.parametrize("status", [500, 502])
    def test_failing_github_is_retried_later_and_blocks_meanwhile(
        self, town: Town, build: Builder, status: int
    ) -> None:
        build("web")
        town.settle()
        town.freeze()
        town.host.faults.add("error", "createCheckRun", status=status, count=1)
        town.settle()
        [[state, code]] = town.sql("SELECT state, last_error_code FROM freeze_targets")
        assert (state, code) == ("failed", "github_unavailable")
        town.make_due()
        town.settle()
        assert set(town.conclusions().values()) == {"failure"}
        assert town.sql("SELECT state FROM freeze_targets") == [("applied",)]

    def test_write_with_a_lost_response_is_read_back_and_not_repeated(self, town: Town, build: Builder) -> None:
        build("web", pulls=1)
        town.settle()
        town.freeze()
        town.host.faults.add("disconnect", "createCheckRun", after=True, count=1)
        town.settle()
        town.host.calls.reset()
        town.make_due()
        town.settle()
        assert town.conclusions() == {"acme/web#1": "failure"}
        assert len(town.host.calls.writes) <= 1

    def test_missing_permission_fails_the_target_without_a_hot_loop(self, town: Town, build: Builder) -> None:
        build("web", pulls=1)
        town.settle()
        town.freeze()
        town.host.faults.add(
            "error", "createCheckRun", status=403, message="Resource not accessible by integration", count=1
        )
        assert town.settle() == 1
        [[state, code, wait]] = town.sql(
            "SELECT state, last_error_code, next_attempt_at - clock_timestamp() > '10 minutes' FROM freeze_targets"
        )
        assert (state, code, wait) == ("failed", "github_permission_denied", True)

    def test_secondary_limit_pauses_the_whole_installation(self, town: Town, build: Builder) -> None:
        build("api", "web")
        town.settle()
        town.freeze()
        town.host.faults.add(
            "error", "createCheckRun", status=403, message="You have exceeded a secondary rate limit.", count=1
        )
        town.settle()
        [[paused]] = town.sql("SELECT paused_until - clock_timestamp() > '30 seconds' FROM installations")
        assert paused is True
        assert town.settle() == 0

    def test_running_pass_stops_when_another_worker_pauses_the_installation(self, town: Town, build: Builder) -> None:
        build("web", pulls=1)
        town.settle()
        town.freeze()
        under_way = leased_pass(town)
        with town.jobs.open(SYSTEM_CALLER) as uow:
            pause_installation(uow, under_way.batch.installation_id, uow.now + timedelta(seconds=30))
        town.host.calls.reset()
        under_way.run()
        assert town.host.calls.total == 0
        [[planned]] = town.sql("SELECT due_at - clock_timestamp() > '20 seconds' FROM watched_branches")
        assert planned is True
        town.sql("UPDATE installations SET paused_until = NULL")
        town.make_due()
        town.settle()
        assert town.conclusions() == {"acme/web#1": "failure"}

    def test_refused_head_does_not_delay_the_others(self, town: Town, build: Builder) -> None:
        build("api", "web")
        town.settle()
        town.freeze()
        town.host.faults.add("null_check_run", count=1)
        town.settle()
        assert list(town.conclusions().values()).count("failure") == 3
        town.make_due()
        town.settle()
        assert set(town.conclusions().values()) == {"failure"}


class TestLeases:
    def test_late_write_is_not_recorded_and_is_read_back(self, town: Town, build: Builder) -> None:
        """A worker is paused before it sends; meanwhile the freeze it knew of is lifted and written by another."""
        build("web", pulls=1)
        town.settle()
        freeze = town.freeze()
        paused, late = evaluated_pass(town)
        town.sql("UPDATE watched_branches SET lease_until = clock_timestamp() - interval '1 second'")
        town.lift(freeze)
        town.settle()
        assert town.conclusions() == {"acme/web#1": "success"}
        sent = write_checks(paused.client, late, "http://web.test")
        assert town.conclusions() == {"acme/web#1": "failure"}
        paused._record([], sent)
        assert town.sql("SELECT conclusion FROM head_checks") == [("success",)]
        assert town.sql("SELECT read_back FROM watched_branches") == [(True,)]
        town.settle()
        assert town.conclusions() == {"acme/web#1": "success"}

    def test_branch_without_a_lease_is_not_finished(self, town: Town, build: Builder) -> None:
        """A worker sleeps through its lease between looking and judging, and nobody has taken the branch over yet."""
        build("web", pulls=1)
        town.settle()
        town.freeze()
        asleep = leased_pass(town)
        heads = asleep._gather(asleep._fetch())
        town.sql("UPDATE watched_branches SET lease_until = clock_timestamp() - interval '1 second'")
        with pytest.raises(LeaseLostError):
            asleep._plan(heads)
        assert town.sql("SELECT state FROM freeze_targets") == [("pending",)]
        town.settle()
        assert town.conclusions() == {"acme/web#1": "failure"}
        assert town.sql("SELECT state FROM freeze_targets") == [("applied",)]

    def test_expired_lease_is_taken_over_and_read_back_twice(self, town: Town, build: Builder) -> None:
        build("web", pulls=1)
        town.freeze()
        with town.jobs.open(SYSTEM_CALLER) as uow:
            assert acquire(uow) is not None
        assert town.settle() == 0
        town.sql("UPDATE watched_branches SET lease_until = clock_timestamp() - interval '1 second'")
        town.settle()
        assert town.conclusions() == {"acme/web#1": "failure"}
        [[again]] = town.sql("SELECT due_at = reread_at AND due_at > clock_timestamp() FROM watched_branches")
        assert again


def test_no_success_is_sent_when_any_call_fails(town: Town, build: Builder) -> None:
    """Every call site in turn fails; a frozen branch never sees a `success` (I3)."""
    build("web")
    town.freeze()
    for scope in ("access_tokens", "graphql query", "createCheckRun"):
        for kind in ("error", "disconnect"):
            town.host.faults.add(kind, scope, count=1)
            try:
                town.settle()
            except GitHubError as error:
                raise AssertionError(scope) from error
            town.make_due("lease_until = NULL", "read_back = true")
            town.sql("UPDATE installations SET paused_until = NULL")
    town.settle()
    assert set(town.conclusions().values()) == {"failure"}
    assert {write["conclusion"] for write in town.host.calls.writes} == {"failure"}


class TestACrashAfterTheWrite:
    def test_unrecorded_write_is_read_back_and_not_repeated(self, town: Town, build: Builder) -> None:
        build("web", pulls=3)
        town.settle()
        town.freeze()
        before = town.sql("SELECT repository_id, head_sha, conclusion, evaluation, summary_hash FROM head_checks")
        town.settle()
        for repository, sha, conclusion, evaluation, words in before:  # as if the worker had died before its record
            town.sql(
                "UPDATE head_checks SET conclusion = :conclusion, evaluation = :evaluation, summary_hash = :words "
                "WHERE repository_id = :repository AND head_sha = :sha",
                conclusion=conclusion,
                evaluation=evaluation,
                words=words,
                repository=repository,
                sha=sha,
            )
        town.host.calls.reset()
        town.look_at_everything()
        town.settle()
        assert town.host.calls.writes == []
        assert town.sql("SELECT DISTINCT conclusion, evaluation > 1 FROM head_checks") == [("failure", True)]

    def test_outdated_text_is_written_although_the_verdict_stands(self, town: Town, build: Builder) -> None:
        build("web", pulls=1)
        town.freeze()
        town.settle()
        town.freeze()
        town.host.calls.reset()
        town.look_at_everything()
        town.settle()
        assert len(town.host.calls.writes) == 1
