"""A pull request gets another base while a worker still has in its hands what it saw of the old one."""

from collections import deque

import pytest

from models.repositories import Repository
from tests import factories
from tests.harness.github_harness import Builder, Harness
from tests.jobs.passes import leased_pass
from tests.jobs.pull_request_exceptions.grants import row_of
from tools.fake_github.model.records import PullRequest


@pytest.fixture
def first(harness: Harness, build: Builder) -> PullRequest:
    """Return one of two pull requests of one head into `main`; `release/8` is frozen."""
    [first] = build("web", pulls=1)
    web = harness.fake_github.organization("acme").repository("web")
    web.branch("release/8").requires("change-freeze/release/8", "release/8")
    web.pull_request(base="main", sharesHeadWith=first.number)
    repository = harness.session.get_one(Repository, harness.branches["acme/web"].repository_id)
    frozen = factories.branch(harness.session, repository, "release/8")
    harness.session.commit()
    harness.freeze({"type": "branch", "branchId": frozen.id})
    harness.run_until_idle()
    return first


def retarget(harness: Harness, pull: PullRequest, base: str) -> None:
    """Do it as a person, and have the service look at both bases, as its webhook asks."""
    assert harness.person("PATCH", f"/repos/acme/web/pulls/{pull.number}", {"base": base}).status_code == 200
    harness.make_due("wanted_generation = nextval('generations')")


def test_base_that_was_read_last_stays_and_blocks(harness: Harness, first: PullRequest) -> None:
    assert set(harness.conclusions().values()) == {"success"}
    harness.make_due("wanted_generation = nextval('generations')")
    harness.sql("UPDATE checks SET due_at = NULL WHERE name = 'change-freeze/release/8'")
    slow = leased_pass(harness)
    seen = slow.reading.fetch()
    retarget(harness, first, "release/8")
    assert harness.run_until_idle() == 1
    assert harness.conclusions() == {"acme/web#1": "failure", "acme/web#2": "success"}
    planned = deque(slow._plan(slow.reading.mirror(seen)))
    slow._write_in_order(planned)
    slow._end(planned)
    harness.run_until_idle()
    assert (row_of(harness, first.number).base_branch, row_of(harness, first.number).state) == ("release/8", "open")
    assert harness.conclusions() == {"acme/web#1": "failure", "acme/web#2": "success"}
    assert harness.merge("acme/web", first.number).status_code == 405
