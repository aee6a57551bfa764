"""Heads that two watched branches share under one check name, while two workers process one branch each."""

import pytest

from models.repositories import Repository, WatchedBranch
from services.core.work_queue import LeaseLostError
from services.reconcile.check_writes import WriteResult, write_checks
from services.reconcile.evaluation import CheckUpdate
from services.reconcile.reconciler import Pass
from tests import factories
from tests.jobs.conftest import Builder, Town
from tests.jobs.passes import evaluated_pass, leased_pass


@pytest.fixture
def sibling(town: Town, build: Builder) -> WatchedBranch:
    """Watch `main` and `release/8` of one repository, each with a pull request of one and the same head."""
    [pull] = build("web", pulls=1)
    web = town.host.organization("acme").repository("web")
    web.branch("release/8")
    web.pull_request(base="release/8", sharesHeadWith=pull.number)
    repository = town.session.get_one(Repository, town.branches["acme/web"].repository_id)
    other = factories.branch(town.session, repository, "release/8", check_name="change-freeze/main")
    town.sql("UPDATE watched_branches SET due_at = date_trunc('milliseconds', clock_timestamp())")
    town.settle()
    town.sql("UPDATE head_checks SET summary_hash = ''")  # so that the first worker has something to write
    town.sql(
        "UPDATE watched_branches SET due_at = date_trunc('milliseconds', clock_timestamp()) WHERE name = 'main'",
    )
    return other


def sent(town: Town, begun: Pass, decisions: list[CheckUpdate]) -> list[WriteResult]:
    assert decisions
    return write_checks(begun.client, decisions, town.reconciler.details_url)


def test_success_that_arrives_after_a_siblings_failure_does_not_stay(town: Town, sibling: WatchedBranch) -> None:
    """The first worker's call is slow; its lease holds all the time, so nobody takes its branch over."""
    slow, allowed = evaluated_pass(town)
    town.freeze({"type": "branch", "branchId": sibling.id})
    quick, blocked = evaluated_pass(town)
    quick._record([], sent(town, quick, blocked))
    slow._record([], sent(town, slow, allowed))
    assert set(town.conclusions().values()) == {"success"}
    town.settle()
    assert set(town.conclusions().values()) == {"failure"}
    assert town.sql("SELECT DISTINCT conclusion, unconfirmed FROM head_checks") == [("failure", False)]


def test_late_success_that_is_recorded_first_does_not_stay(town: Town, sibling: WatchedBranch) -> None:
    slow, allowed = evaluated_pass(town)
    town.freeze({"type": "branch", "branchId": sibling.id})
    quick, blocked = evaluated_pass(town)
    failures = sent(town, quick, blocked)
    slow._record([], sent(town, slow, allowed))
    quick._record([], failures)
    assert set(town.conclusions().values()) == {"success"}
    town.settle()
    assert set(town.conclusions().values()) == {"failure"}


def test_writes_that_arrive_in_order_are_not_repeated(town: Town, sibling: WatchedBranch) -> None:
    slow, allowed = evaluated_pass(town)
    town.freeze({"type": "branch", "branchId": sibling.id})
    quick, blocked = evaluated_pass(town)
    slow._record([], sent(town, slow, allowed))
    quick._record([], sent(town, quick, blocked))
    town.host.calls.reset()
    town.settle()
    assert town.host.calls.writes == []
    assert set(town.conclusions().values()) == {"failure"}


def test_pass_without_leases_does_not_update_the_mirror(town: Town, build: Builder) -> None:
    """It has seen no pull request; meanwhile one was opened, and seen by whoever took the branch over."""
    build("web", pulls=0)
    asleep = leased_pass(town)
    seen = asleep._fetch()
    town.host.organization("acme").repository("web").pull_request()
    town.sql("UPDATE watched_branches SET lease_until = clock_timestamp() - interval '1 second'")
    town.settle()
    assert town.sql("SELECT state FROM pull_requests") == [("open",)]
    with pytest.raises(LeaseLostError):
        asleep._gather(seen)
    assert town.sql("SELECT state FROM pull_requests") == [("open",)]
    assert town.sql("SELECT tracked FROM head_checks") == [(True,)]
