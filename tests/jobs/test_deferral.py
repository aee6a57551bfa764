"""A pass defers what is left to more urgent branches, to other installations, and when limits are used up."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

from jobs import context
from jobs.context import Context, run_for
from jobs.registry import JOBS
from rules.rate_budget import RateLimits
from services.core.unit_of_work import SYSTEM_CALLER
from services.reconcile.leases import acquire, other_installations_due
from tests.jobs.conftest import Builder, Town
from tests.services.conftest import Listener

ALIASES = RateLimits(content="aliases", content_per_minute=4, content_per_hour=1000)


def rank(town: Town, repository: str, number: int, *, auto_merge: bool = False, draft: bool = False) -> None:
    """Make a pull request more or less mergeable, here and there."""
    pull = town.host.world.repository_named(repository).pulls[number]
    pull.draft = draft
    pull.review_decision = "APPROVED" if auto_merge else "REVIEW_REQUIRED"


def failures(town: Town) -> int:
    return sum(shown == "failure" for shown in town.conclusions().values())


class TestHourlyQuota:
    def test_demotions_leave_quota_to_verdicts_when_nothing_is_frozen(self, town: Town, build: Builder) -> None:
        self.scarce(town, build)
        town.make_due()
        town.settle()
        assert town.sql("SELECT DISTINCT conclusion FROM head_checks") == [("success",)]

    def test_superseded_success_is_demoted_in_a_freeze_without_spare_quota(self, town: Town, build: Builder) -> None:
        closed = self.scarce(town, build)
        town.freeze()
        town.settle()
        town.person("PATCH", f"/repos/acme/web/pulls/{closed}", {"state": "open"})
        assert town.merge("acme/web", closed).status_code == 405

    def scarce(self, town: Town, build: Builder) -> int:
        """Close a pull request that has its `success`, when the hour's allowance is all but used up."""
        closed, _other = build("web", pulls=2)
        town.settle()
        town.person("PATCH", f"/repos/acme/web/pulls/{closed.number}", {"state": "closed"})
        client = town.github.client(next(iter(town.host.world.installations)))
        used = (client.budget.graphql.limit or 0) - (client.budget.graphql.remaining or 0)
        town.host.settings.graphql_points_per_hour = used + 1
        return closed.number


class TestRateLimits:
    def test_pass_uses_the_budget_of_a_minute_and_no_more(self, town: Town, build: Builder) -> None:
        build("web", "api", pulls=3)
        town.settle()
        town.jobs.dependencies = replace(town.jobs.dependencies, rate_limits=ALIASES)
        town.freeze()
        town.sql("DELETE FROM github_api_usage")
        town.settle()
        assert failures(town) == 4

    def test_target_that_waits_for_budget_shows_its_progress(self, town: Town, build: Builder) -> None:
        build("web", "api", pulls=3)
        town.settle()
        town.jobs.dependencies = replace(town.jobs.dependencies, rate_limits=ALIASES)
        town.freeze()
        town.sql("DELETE FROM github_api_usage")
        town.settle()
        targets = town.sql("SELECT state, heads_total, heads_written, last_error_code FROM freeze_targets")
        assert {(state, total, error) for state, total, _written, error in targets} <= {
            ("pending", 3, None),
            ("applied", 3, None),
        }
        assert sum(written for _state, _total, written, _error in targets) == 4

    def test_pass_continues_after_the_minute(self, town: Town, build: Builder) -> None:
        build("web", "api", pulls=3)
        town.settle()
        town.jobs.dependencies = replace(town.jobs.dependencies, rate_limits=ALIASES)
        town.freeze()
        town.sql("DELETE FROM github_api_usage")
        town.settle()
        town.sql("UPDATE github_api_usage SET at = at - interval '63 seconds'")
        town.sql("UPDATE installations SET paused_until = NULL")
        town.make_due()
        town.settle()
        assert failures(town) == 6

    def test_two_workers_share_the_budget(self, town: Town, build: Builder) -> None:
        town.jobs.dependencies = replace(town.jobs.dependencies, rate_limits=ALIASES)
        build("web", "api", pulls=3)
        town.settle()
        town.freeze()
        town.sql("DELETE FROM github_api_usage")
        for _worker in range(2):
            town.reconciler.run_pass()
            town.sql("UPDATE installations SET paused_until = NULL")
            town.make_due()
        assert failures(town) == 4

    def test_refused_mutation_makes_the_next_ones_slower(self, town: Town, build: Builder) -> None:
        build("web", pulls=3)
        town.settle()
        town.host.faults.add(
            "error", "graphql mutation", status=403, message="You have exceeded a secondary rate limit", count=1
        )
        town.freeze()
        town.settle()
        [[counting]] = town.sql("SELECT content_counting FROM installations")
        assert counting == "aliases"

    def test_learned_counting_expires_after_a_day(self, town: Town, build: Builder) -> None:
        build("web", pulls=6)
        town.settle()
        town.sql(
            "UPDATE installations SET content_counting = 'aliases', content_learnt_at = now() - interval '25 hours'"
        )
        town.jobs.dependencies = replace(
            town.jobs.dependencies, rate_limits=RateLimits(content="learn", content_per_minute=4)
        )
        town.freeze()
        town.settle()
        assert failures(town) == 6


class TestOrder:
    def test_most_mergeable_heads_of_all_branches_come_before_drafts(self, town: Town, build: Builder) -> None:
        """Also with more branches than one pass claims."""
        build(*(f"service-{number}" for number in range(205)), pulls=2)
        for number in range(205):
            rank(town, f"acme/service-{number}", 1, auto_merge=True)
            rank(town, f"acme/service-{number}", 2, draft=True)
        town.settle()
        town.host.calls.reset()
        town.freeze()
        town.settle()
        urgent = {
            pull.head_sha for one in town.host.world.repositories.values() for pull in (one.pulls[1],) if one.pulls
        }
        order = [write["headSha"] in urgent for write in town.host.calls.writes if write["conclusion"] == "failure"]
        assert len(order) == 410
        assert order == sorted(order, reverse=True)

    def test_deferred_branch_is_urgent_again_after_a_new_freeze(self, town: Town, build: Builder) -> None:
        build("web", pulls=1)
        town.settle()
        town.sql("UPDATE watched_branches SET deferred_rank = 4")
        town.freeze()
        assert town.sql("SELECT deferred_rank FROM watched_branches") == [(None,)]


class TestOthers:
    def test_waiting_installation_is_detected(self, town: Town, build: Builder) -> None:
        build("web")
        town.sql("INSERT INTO installations (id, account, permissions, created_at) VALUES (99, 'globex', '{}', now())")
        with town.jobs.open(SYSTEM_CALLER) as uow:
            claimed = acquire(uow)
            assert claimed is not None
            assert not other_installations_due(uow, claimed.installation_id)
            assert other_installations_due(uow, 99) is False  # leased by this very pass
        town.sql("UPDATE watched_branches SET lease_until = :past", past=claimed_long_ago(town))
        with town.jobs.open(SYSTEM_CALLER) as uow:
            assert other_installations_due(uow, 99)


def claimed_long_ago(town: Town) -> Any:
    [[now]] = town.sql("SELECT clock_timestamp()")
    return now - timedelta(minutes=5)


def test_background_job_yields_to_a_freeze_within_seconds(town: Town, build: Builder) -> None:
    """A worker looks at the rules of ten thousand branches, and its queue holds a freeze."""
    build("web")
    heard = cast(Listener, town.jobs.wakeups).heard
    context.set_context(Context(town.jobs, town.github, town.reconciler, lambda _name: None))
    try:
        heard.clear()
        run_for(context.get_context(), "verify", lambda: True, JOBS["verify"].time_slice)
        assert heard == ["verify"]
        assert JOBS["verify"].time_slice < 5
    finally:
        context._contexts.clear()
