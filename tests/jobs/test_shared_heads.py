"""Heads that two branches of a pattern share under its check, while two workers write one check each."""

from datetime import timedelta
from typing import cast

import pytest

from models.repositories import Repository, WatchedBranch
from rules.freezes.check_names import check_name
from services.core.work_queue import LEASE_DURATION, LeaseLostError
from services.reconcile.check_writes import WriteResult, write_checks
from services.reconcile.evaluation import CheckUpdate
from services.reconcile.reconciler import Pass
from tests import factories
from tests.harness.clock import MovableClock
from tests.harness.github_harness import Builder, Harness
from tests.jobs.passes import evaluated_pass, leased_pass

PATTERN = "change-freeze/**"


@pytest.fixture
def sibling(harness: Harness, build: Builder) -> WatchedBranch:
    """Watch `main` and `release/8` of one repository, each with a pull request of one and the same head."""
    [pull] = build("web", pulls=1)
    web = harness.fake_github.organization("acme").repository("web")
    web.branch("release/8")
    web.pull_request(base="release/8", sharesHeadWith=pull.number)
    repository = harness.session.get_one(Repository, harness.branches["acme/web"].repository_id)
    harness.sql("UPDATE watched_branches SET pattern_check_name = :name", name=PATTERN)
    other = factories.branch(harness.session, repository, "release/8", pattern_check_name=PATTERN)
    harness.sql("UPDATE checks SET due_at = date_trunc('milliseconds', clock_timestamp())")
    harness.run_until_idle()
    harness.sql("UPDATE head_checks SET summary_hash = ''")  # so that the first worker has something to write
    make_due(harness, "main")
    return other


def sent(harness: Harness, started: Pass, decisions: list[CheckUpdate]) -> list[WriteResult]:
    assert decisions
    return write_checks(started.state.client, decisions, harness.reconciler.web_url)


def test_one_worker_at_a_time_writes_the_check_of_a_pattern(harness: Harness, sibling: WatchedBranch) -> None:
    """The first worker's call is slow; meanwhile another one writes the sibling's own check, and only that."""
    slow, allowed = evaluated_pass(harness)
    assert {update.head.key.check_name for update in allowed} == {check_name("main"), PATTERN}
    harness.freeze({"type": "branch", "branchId": sibling.id})
    quick, blocked = evaluated_pass(harness)
    assert {update.head.key.check_name for update in blocked} == {check_name(sibling.name)}
    quick._record([], sent(harness, quick, blocked))
    slow._record([], sent(harness, slow, allowed))
    assert set(harness.conclusions(PATTERN).values()) == {"success"}
    assert harness.sql("SELECT state FROM freeze_targets") == [("pending",)]
    harness.run_until_idle()
    assert set(harness.conclusions(PATTERN).values()) == {"failure"}
    assert harness.sql("SELECT state FROM freeze_targets") == [("applied",)]


def test_success_of_a_dead_worker_does_not_stay_after_a_siblings_failure(
    harness: Harness, sibling: WatchedBranch
) -> None:
    """Its branch has not been taken over yet when the sibling's worker records the head, and people close it."""
    dead, allowed = evaluated_pass(harness)
    harness.freeze({"type": "branch", "branchId": sibling.id})
    quick, blocked = evaluated_pass(harness)
    quick._record([], sent(harness, quick, blocked))
    pulls = harness.fake_github.world.repository_named("acme/web").pulls
    for number in pulls:
        harness.person("PATCH", f"/repos/acme/web/pulls/{number}", {"state": "closed"})
    harness.sql("UPDATE checks SET lease_until = clock_timestamp() - interval '1 second'")
    harness.run_until_idle()
    sent(harness, dead, allowed)
    cast(MovableClock, harness.jobs.clock).offset += LEASE_DURATION + timedelta(seconds=1)
    harness.run_until_idle()
    runs = harness.person("GET", f"/repos/acme/web/commits/{pulls[1].head_sha}/check-runs").json()["check_runs"]
    assert {run["conclusion"] for run in runs} == {"failure"}


def test_pass_without_leases_does_not_update_the_mirror(harness: Harness, build: Builder) -> None:
    """It has seen no pull request; meanwhile one was opened, and seen by the worker that acquired the branch."""
    build("web", pulls=0)
    asleep = leased_pass(harness)
    seen = asleep.reading.fetch()
    harness.fake_github.organization("acme").repository("web").pull_request()
    harness.sql("UPDATE checks SET lease_until = clock_timestamp() - interval '1 second'")
    harness.run_until_idle()
    assert harness.sql("SELECT state FROM pull_requests") == [("open",)]
    with pytest.raises(LeaseLostError):
        asleep.reading.mirror(seen)
    assert harness.sql("SELECT state FROM pull_requests") == [("open",)]


def test_demotion_does_not_stay_on_a_head_that_a_sibling_gets_meanwhile(
    harness: Harness, sibling: WatchedBranch
) -> None:
    """While the call is under way, people propose the head for the sibling, and a worker finds its verdict right."""
    harness.make_due()
    harness.run_until_idle()
    propose(harness, sibling, "closed")
    harness.run_until_idle()
    harness.person("PATCH", "/repos/acme/web/pulls/1", {"state": "closed"})
    make_due(harness, "main")
    slow, demotions = evaluated_pass(harness)
    propose(harness, sibling, "open")
    harness.run_until_idle()
    slow._record([], sent(harness, slow, demotions))
    harness.run_until_idle()
    assert harness.conclusions(PATTERN)["acme/web#2"] == "success"


def propose(harness: Harness, sibling: WatchedBranch, state: str) -> None:
    """Close or reopen the pull request into the sibling, and have that branch read."""
    harness.person("PATCH", "/repos/acme/web/pulls/2", {"state": state})
    make_due(harness, sibling.name)


def make_due(harness: Harness, name: str) -> None:
    due = "UPDATE checks SET due_at = date_trunc('milliseconds', clock_timestamp()) WHERE name IN (:own, :pattern)"
    harness.sql(due, own=check_name(name), pattern=PATTERN)
