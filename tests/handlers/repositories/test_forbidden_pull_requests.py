"""The open pull requests that freezes forbid to merge."""

from typing import Any

import pytest
from sqlalchemy.orm import Session

from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.callers import Tenant
from tests.handlers.people import through_pages

PATH = "/v1/pulls"


def listed(acme: Tenant, **filters: Any) -> list[str]:
    page = acme.key("freeze:read").get(PATH, **filters).json()
    return [f"{row['repository']}#{row['number']}" for row in page["data"]]


def propose(session: Session, branch: WatchedBranch, *numbers: int, **columns: Any) -> None:
    """Open pull requests into a branch."""
    repository = session.get_one(Repository, branch.repository_id)
    for number in numbers:
        factories.pull_request(session, repository, number, base_branch=branch.name, **columns)


@pytest.fixture
def api(acme: Tenant, web: WatchedBranch) -> WatchedBranch:
    return factories.watched(acme.session, acme.organization, "acme/api")


class TestListForbiddenPullRequests:
    def test_pull_requests_into_frozen_branches_are_listed(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        release = factories.branch(acme.session, acme.session.get_one(Repository, web.repository_id), "release/1")
        propose(acme.session, web, 2, 1)
        propose(acme.session, web, 3, state="closed")
        propose(acme.session, release, 4)
        propose(acme.session, api, 5)
        assert listed(acme) == []
        factories.freeze(acme.session, acme.organization, [web])
        factories.freeze(acme.session, acme.organization, [api], ended_at=factories.now(), end_reason="lifted")
        factories.branch_enforcement(acme.session, web)
        assert listed(acme) == ["acme/web#1", "acme/web#2"]
        first = acme.key().get(PATH).json()["data"][0]
        assert (first["verdict"], first["blocking"]["state"]) == ("blocked", "blocked")

    def test_pull_request_that_an_exception_lets_in_is_not_listed(self, acme: Tenant, web: WatchedBranch) -> None:
        freeze = factories.freeze(acme.session, acme.organization, [web])
        propose(acme.session, web, 1)
        pull = factories.pull_request(acme.session, acme.session.get_one(Repository, web.repository_id), 2)
        factories.exception(acme.session, freeze, pull, web)
        assert listed(acme) == ["acme/web#1"]

    def test_list_is_narrowed_by_freeze_repository_and_branch(
        self, acme: Tenant, web: WatchedBranch, api: WatchedBranch
    ) -> None:
        release = factories.branch(acme.session, acme.session.get_one(Repository, web.repository_id), "release/1")
        freeze = factories.freeze(acme.session, acme.organization, [web, api])
        factories.freeze(acme.session, acme.organization, [release])
        for number, branch in enumerate((web, api, release), 1):
            propose(acme.session, branch, number)
        assert sorted(listed(acme, freezeId=freeze.id)) == ["acme/api#2", "acme/web#1"]
        assert listed(acme, repo="acme/web") == ["acme/web#1", "acme/web#3"]
        assert listed(acme, branchId=release.id) == ["acme/web#3"]
        assert listed(acme, branchId=release.id, freezeId=freeze.id) == []

    def test_pull_request_that_the_check_of_a_pattern_forbids_is_listed(
        self, acme: Tenant, repository: Repository
    ) -> None:
        frozen, sibling, other = (
            factories.branch(acme.session, repository, name, pattern_check_name=f"change-freeze/{pattern}")
            for name, pattern in (("release/1", "release/*"), ("release/2", "release/*"), ("next", "n*"))
        )
        factories.freeze(acme.session, acme.organization, [frozen])
        for number, branch in enumerate((frozen, sibling, other), 1):
            propose(acme.session, branch, number)
        assert listed(acme) == ["acme/web#1", "acme/web#2"]

    def test_list_has_pages_across_branches(self, acme: Tenant, web: WatchedBranch, api: WatchedBranch) -> None:
        freeze = factories.freeze(acme.session, acme.organization, [web, api])
        for branch in (web, api):
            propose(acme.session, branch, *range(1, 41))
        pull = factories.pull_request(acme.session, acme.session.get_one(Repository, web.repository_id), 41)
        factories.exception(acme.session, freeze, pull, web)
        seen = [(row["repository"], row["number"]) for row in through_pages(acme.key(), PATH, limit=30)]
        assert sorted(seen) == sorted((f"acme/{name}", number) for name in ("api", "web") for number in range(1, 41))
