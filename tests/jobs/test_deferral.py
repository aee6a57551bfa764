"""A pass defers what is left to more urgent branches, to other installations, and when limits are used up."""

from datetime import timedelta
from typing import Any

from jobs.context import Context, run_for
from jobs.registry import JOBS
from rules.rate_budget import GitHubLimits
from services.core.unit_of_work import SYSTEM_CALLER
from services.reconcile.leases import Turn, acquire, other_installations_due
from tests.harness.github_harness import Builder, Harness
from tests.harness.people import edit

ALIASES = GitHubLimits(content="aliases", content_per_minute=4, content_per_hour=1000)


def rank(harness: Harness, repository: str, number: int, *, auto_merge: bool = False, draft: bool = False) -> None:
    """Make a pull request more or less mergeable, here and there."""
    pull = harness.record(repository).pulls[number]
    pull.draft = draft
    pull.review_decision = "APPROVED" if auto_merge else "REVIEW_REQUIRED"


def failures(harness: Harness) -> int:
    return sum(shown == "failure" for shown in harness.conclusions().values())


class TestHourlyQuota:
    def test_demotions_leave_quota_to_verdicts_when_nothing_is_frozen(self, harness: Harness, build: Builder) -> None:
        self.scarce(harness, build)
        harness.make_due()
        harness.run_until_idle()
        assert {write["conclusion"] for write in harness.fake_github.calls.writes} == {"success"}

    def test_superseded_success_is_demoted_in_a_freeze_without_spare_quota(
        self, harness: Harness, build: Builder
    ) -> None:
        closed = self.scarce(harness, build)
        harness.freeze()
        harness.run_until_idle()
        edit(harness, closed, state="open")
        assert harness.merge("acme/web", closed).status_code == 405

    def test_superseded_success_is_demoted_in_a_freeze_of_a_sibling(self, harness: Harness, build: Builder) -> None:
        """The commit could be proposed for the frozen sibling, which only the check of the pattern protects."""
        closed = self.scarce(harness, build, pattern_check_name="change-freeze/**")
        sibling = harness.watch("release/8", "change-freeze/**")
        harness.freeze({"type": "branch", "branchId": sibling.id})
        harness.run_until_idle()
        edit(harness, closed, state="open")
        assert harness.conclusions("change-freeze/**")[f"acme/web#{closed}"] == "failure"

    def scarce(self, harness: Harness, build: Builder, **columns: Any) -> int:
        """Close a pull request that has its `success`, when the hour's allowance is all but used up."""
        closed, _other = build("web", pulls=2)
        for name, value in columns.items():
            setattr(harness.branches["acme/web"], name, value)
        harness.session.commit()
        harness.run_until_idle()
        edit(harness, closed.number, state="closed")
        client = harness.github.client(harness.installed.id)
        used = (client.budget.graphql.limit or 0) - (client.budget.graphql.remaining or 0)
        harness.fake_github.settings.graphql_points_per_hour = used + 1
        return closed.number


class TestRateLimits:
    def freeze_with_a_small_budget(self, harness: Harness, build: Builder) -> None:
        """Freeze six heads, and work until the budget of the minute is used up."""
        build("web", "api", pulls=3)
        harness.run_until_idle()
        harness.jobs.ports = harness.jobs.ports.having(ALIASES)
        harness.freeze()
        harness.sql("DELETE FROM github_api_usage")
        harness.run_until_idle()

    def test_pass_uses_the_budget_of_a_minute_and_no_more(self, harness: Harness, build: Builder) -> None:
        self.freeze_with_a_small_budget(harness, build)
        assert failures(harness) == 4

    def test_target_that_waits_for_budget_shows_its_progress(self, harness: Harness, build: Builder) -> None:
        self.freeze_with_a_small_budget(harness, build)
        targets = harness.sql("SELECT state, heads_total, heads_written, last_error_code FROM freeze_targets")
        assert {(state, total, error) for state, total, _written, error in targets} <= {
            ("pending", 3, None),
            ("applied", 3, None),
        }
        assert sum(written for _state, _total, written, _error in targets) == 4

    def test_pass_continues_after_the_minute(self, harness: Harness, build: Builder) -> None:
        self.freeze_with_a_small_budget(harness, build)
        harness.sql("UPDATE github_api_usage SET at = at - interval '63 seconds'")
        harness.sql("UPDATE installations SET paused_until = NULL")
        harness.make_due()
        harness.run_until_idle()
        assert failures(harness) == 6

    def test_two_workers_share_the_budget(self, harness: Harness, build: Builder) -> None:
        harness.jobs.ports = harness.jobs.ports.having(ALIASES)
        build("web", "api", pulls=3)
        harness.run_until_idle()
        harness.freeze()
        harness.sql("DELETE FROM github_api_usage")
        for _worker in range(2):
            harness.reconciler.run_pass()
            harness.sql("UPDATE installations SET paused_until = NULL")
            harness.make_due()
        assert failures(harness) == 4

    def test_refused_mutation_makes_the_next_ones_slower(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=3)
        harness.run_until_idle()
        harness.fake_github.faults.add(
            "error", "graphql mutation", status=403, message="You have exceeded a secondary rate limit", count=1
        )
        harness.freeze()
        harness.run_until_idle()
        [[counting]] = harness.sql("SELECT content_counting FROM installations")
        assert counting == "aliases"

    def test_learned_counting_expires_after_a_day(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=6)
        harness.run_until_idle()
        harness.sql(
            "UPDATE installations SET content_counting = 'aliases', content_learnt_at = now() - interval '25 hours'"
        )
        harness.jobs.ports = harness.jobs.ports.having(GitHubLimits(content="learn", content_per_minute=4))
        harness.freeze()
        harness.run_until_idle()
        assert failures(harness) == 6


class TestOrder:
    def test_most_mergeable_heads_of_all_branches_come_before_drafts(self, harness: Harness, build: Builder) -> None:
        """Also with more branches than one pass claims."""
        build(*(f"service-{number}" for number in range(205)), pulls=2)
        for number in range(205):
            rank(harness, f"acme/service-{number}", 1, auto_merge=True)
            rank(harness, f"acme/service-{number}", 2, draft=True)
        harness.run_until_idle()
        harness.fake_github.calls.reset()
        harness.freeze()
        harness.run_until_idle()
        urgent = {
            pull.head_sha
            for one in harness.fake_github.world.repositories.values()
            for pull in (one.pulls[1],)
            if one.pulls
        }
        order = [
            write["headSha"] in urgent for write in harness.fake_github.calls.writes if write["conclusion"] == "failure"
        ]
        assert len(order) == 410
        assert order == sorted(order, reverse=True)

    def test_deferred_branch_is_urgent_again_after_a_new_freeze(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.run_until_idle()
        harness.sql("UPDATE checks SET deferred_rank = 4")
        harness.freeze()
        assert harness.sql("SELECT deferred_rank FROM checks") == [(None,)]


class TestOthers:
    def test_waiting_installation_is_detected(self, harness: Harness, build: Builder) -> None:
        build("web")
        harness.sql(
            "INSERT INTO installations (id, account, permissions, created_at) VALUES (99, 'globex', '{}', now())"
        )
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            claimed = acquire(uow, Turn())
            assert claimed is not None
            assert not other_installations_due(uow, claimed.installation_id)
            assert other_installations_due(uow, 99) is False  # leased by this very pass
        harness.sql("UPDATE checks SET lease_until = :past", past=claimed_long_ago(harness))
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            assert other_installations_due(uow, 99)


def claimed_long_ago(harness: Harness) -> Any:
    [[now]] = harness.sql("SELECT clock_timestamp()")
    return now - timedelta(minutes=5)


def test_background_job_yields_to_a_freeze_within_seconds(
    harness: Harness, build: Builder, job_context: Context
) -> None:
    """A worker looks at the rules of ten thousand branches, and its queue holds a freeze."""
    build("web")
    harness.woken.clear()
    run_for(job_context, "verify", lambda: True, time_slice=0.05)
    assert harness.woken == ["verify"]
    assert JOBS["verify"].time_slice < 5
