"""A pull request gets another base while a worker still has in its hands what it saw of the old one."""

from collections import deque

import pytest

from models.repositories import Repository
from rules.rulesets.rulesets import desired_ruleset
from tests import factories
from tests.jobs.conftest import Builder, Town
from tests.jobs.passes import leased_pass
from tests.jobs.pull_request_exceptions.granting import row_of
from tools.fake_github.model.records import PullRequest


@pytest.fixture
def first(town: Town, build: Builder) -> PullRequest:
    """Return one of two pull requests of one head into `main`; `release/8`, under the same name, is frozen."""
    [first] = build("web", pulls=1)
    web = town.host.organization("acme").repository("web")
    required = desired_ruleset("change-freeze/main", town.host.app_id)
    required["conditions"]["ref_name"]["include"] = ["refs/heads/release/8"]
    web.branch("release/8").ruleset(**required)
    web.pull_request(base="main", sharesHeadWith=first.number)
    repository = town.session.get_one(Repository, town.branches["acme/web"].repository_id)
    frozen = factories.branch(town.session, repository, "release/8", check_name="change-freeze/main")
    town.session.commit()
    town.freeze({"type": "branch", "branchId": frozen.id})
    town.settle()
    return first


def retarget(town: Town, pull: PullRequest, base: str) -> None:
    """Do it as a person, and have the service look at both bases, as its webhook asks."""
    assert town.person("PATCH", f"/repos/acme/web/pulls/{pull.number}", {"base": base}).status_code == 200
    town.make_due("wanted_generation = wanted_generation + 1")


def test_base_that_was_read_last_stays_and_blocks(town: Town, first: PullRequest) -> None:
    assert set(town.conclusions().values()) == {"success"}
    town.make_due("wanted_generation = wanted_generation + 1")
    town.sql("UPDATE watched_branches SET due_at = NULL WHERE name = 'release/8'")
    slow = leased_pass(town)
    seen = slow._fetch()
    retarget(town, first, "release/8")
    assert town.settle() == 1
    assert set(town.conclusions().values()) == {"failure"}
    planned = deque(slow._plan(slow._gather(seen)))
    slow._write_in_order(planned)
    slow._end(planned)
    town.settle()
    assert (row_of(town, first.number).base_branch, row_of(town, first.number).state) == ("release/8", "open")
    assert set(town.conclusions().values()) == {"failure"}
    assert town.merge("acme/web", first.number).status_code == 405
