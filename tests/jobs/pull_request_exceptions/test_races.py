"""Nothing that happens around the end of an exception lets its success outlive it."""

from collections import deque
from datetime import timedelta

from models.repositories import Repository
from services.core.unit_of_work import Caller
from services.pull_request_exceptions import requests
from services.pull_request_exceptions.expiry import end_exceptions
from services.pull_request_exceptions.requests import ExceptionInput
from tests import factories
from tests.jobs.conftest import ADA, Town
from tests.jobs.passes import leased_pass
from tests.jobs.pull_request_exceptions.granting import check, grant, now, pass_by, row
from tools.fake_github.model.records import PullRequest


def ask(town: Town, number: int) -> str:
    """Request exceptions, as a person; returns the id of the first."""
    with town.uow_factory.open(Caller(town.organization.id, ADA, "dashboard", "business")) as uow:
        return requests.request(uow, f"acme/web#{number}", None, ExceptionInput("It failed again, after the end"))[0].id


def test_request_before_the_end_is_recorded_leaves_no_success(town: Town, freeze: str, first: PullRequest) -> None:
    made = grant(town, freeze, first.number, expires_at=now(town) + timedelta(hours=1))
    town.settle()
    assert check(town, first)["conclusion"] == "success"
    pass_by(town, hours=1)
    ask(town, first.number)
    assert row(town, made)["expired_at"] is not None
    end_exceptions(town.jobs)
    town.settle()
    assert check(town, first)["conclusion"] == "failure"
    assert town.merge("acme/web", first.number).status_code == 405


def test_pull_request_seen_by_another_worker_blocks_the_shared_head(
    town: Town, freeze: str, first: PullRequest
) -> None:
    """One worker has looked, and is about to write what an exception allows; another finds the head into a sibling."""
    web = town.host.organization("acme").repository("web")
    web.branch("release/8")
    repository = town.session.get_one(Repository, town.branches["acme/web"].repository_id)
    sibling = factories.branch(town.session, repository, "release/8", check_name="change-freeze/main")
    town.session.commit()
    town.freeze({"type": "branch", "branchId": sibling.id})
    town.settle()
    grant(town, freeze, first.number)
    town.sql("UPDATE watched_branches SET due_at = NULL WHERE name = 'release/8'")
    slow = leased_pass(town)
    planned = deque(slow._plan(slow._gather(slow._fetch())))
    assert [decision.conclusion for decision in planned] == ["success"]
    web.pull_request(base="release/8", sharesHeadWith=first.number)
    town.sql("UPDATE watched_branches SET due_at = date_trunc('milliseconds', clock_timestamp()) WHERE name <> 'main'")
    assert town.settle() == 1
    slow._write_in_order(planned)
    slow._end(planned)
    town.settle()
    assert set(town.conclusions().values()) == {"failure"}
    assert town.merge("acme/web", first.number).status_code == 405
