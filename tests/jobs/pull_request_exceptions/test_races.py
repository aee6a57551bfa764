"""Nothing that happens around the end of an exception lets its success outlive it."""

from collections import deque
from datetime import timedelta

from models.repositories import Repository
from services.core.unit_of_work import Caller
from services.pull_request_exceptions import requests
from services.pull_request_exceptions.expiry import end_exceptions
from services.pull_request_exceptions.requests import ExceptionInput
from tests import factories
from tests.factories.plans import BUSINESS
from tests.harness.github_harness import ADA, Harness
from tests.jobs.passes import leased_pass
from tests.jobs.pull_request_exceptions.grants import check, grant, now, pass_by, row
from tools.fake_github.model.records import PullRequest


def ask(harness: Harness, number: int) -> str:
    """Request exceptions, as a person; returns the id of the first."""
    with harness.uow_factory.open(Caller(harness.organization.id, ADA, "dashboard", BUSINESS)) as uow:
        wanted = ExceptionInput("It failed again, after the end")
        return requests.request(uow, f"acme/web#{number}", None, wanted).rows[0].id


def test_request_before_the_end_is_recorded_leaves_no_success(
    harness: Harness, freeze: str, first: PullRequest
) -> None:
    made = grant(harness, freeze, first.number, expires_at=now(harness) + timedelta(hours=1))
    harness.run_until_idle()
    assert check(harness, first)["conclusion"] == "success"
    pass_by(harness, hours=1)
    ask(harness, first.number)
    assert row(harness, made)["expired_at"] is not None
    end_exceptions(harness.jobs)
    harness.run_until_idle()
    assert check(harness, first)["conclusion"] == "failure"
    assert harness.merge("acme/web", first.number).status_code == 405


def test_pull_request_seen_by_another_worker_blocks_the_shared_head(
    harness: Harness, freeze: str, first: PullRequest
) -> None:
    """One worker is about to write that the pattern lets a head in by an exception; another finds it without one."""
    pattern = "change-freeze/**"
    web = harness.fake_github.organization("acme").repository("web")
    web.branch("release/8").requires(pattern, "main")
    repository = harness.session.get_one(Repository, harness.branches["acme/web"].repository_id)
    harness.sql("UPDATE watched_branches SET pattern_check_name = :name", name=pattern)
    sibling = factories.branch(harness.session, repository, "release/8", pattern_check_name=pattern)
    harness.session.commit()
    web.pull_request(base="release/8", sharesHeadWith=first.number)
    harness.make_due("wanted_generation = nextval('generations')")
    harness.run_until_idle()
    grant(harness, freeze, first.number)
    harness.sql("UPDATE checks SET due_at = NULL WHERE name = 'change-freeze/main'")
    slow = leased_pass(harness)
    planned = deque(slow._plan(slow.reading.mirror(slow.reading.fetch())))
    assert [(update.head.key.check_name, update.conclusion) for update in planned] == [(pattern, "success")]
    web.pull_request(base="main", sharesHeadWith=first.number)
    harness.sql(
        "UPDATE checks SET due_at = date_trunc('milliseconds', clock_timestamp()) WHERE branch_id <> :id",
        id=sibling.id,
    )
    assert harness.run_until_idle() == 1
    slow._write_in_order(planned)
    slow._end(planned)
    harness.run_until_idle()
    assert harness.conclusions(pattern)["acme/web#1"] == "failure"
    assert harness.merge("acme/web", first.number).status_code == 405
