"""What passes report to metrics of the queue of branches."""

import pytest

from rules.rate_budget import GitHubLimits
from tests.harness.github_harness import Builder, Harness
from tests.services.core.holders import Counts


@pytest.fixture
def counts(harness: Harness, build: Builder) -> Counts:
    """Return what is counted from now on, of a frozen repository with one pull request that is green."""
    build("web", pulls=1)
    harness.run_until_idle()
    harness.freeze()
    observer = Counts()
    harness.jobs.ports = harness.jobs.ports.having(observer)
    return observer


def test_finished_branch_counts_as_done(harness: Harness, counts: Counts) -> None:
    harness.reconciler.run_pass()
    assert counts.reports == [("acquired", "reconcile", "1", "0"), ("released", "reconcile", "1")]


def test_branch_whose_write_fails_counts_as_failed_with_its_code(harness: Harness, counts: Counts) -> None:
    harness.fake_github.faults.add("error", "createCheckRun", status=500, count=1)
    harness.reconciler.run_pass()
    assert counts.reports[1:] == [("failed", "reconcile", "github_unavailable", "1")]


def test_branch_that_waits_for_our_own_budget_counts_as_postponed(harness: Harness, counts: Counts) -> None:
    limits = GitHubLimits(content="aliases", content_per_minute=0)
    harness.jobs.ports = harness.jobs.ports.having(limits)
    harness.reconciler.run_pass()
    assert counts.reports[1:] == [("postponed", "reconcile", "1")]


def test_branch_that_github_limits_counts_as_postponed(harness: Harness, counts: Counts) -> None:
    harness.fake_github.faults.add(
        "error", "graphql mutation", status=403, message="You have exceeded a secondary rate limit", count=1
    )
    harness.reconciler.run_pass()
    assert counts.reports[1:] == [("postponed", "reconcile", "1")]
