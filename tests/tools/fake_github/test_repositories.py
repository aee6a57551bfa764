"""Repositories move, are archived and deleted; lists are paged."""

from typing import Any

import pytest
from githubkit import GitHub
from githubkit.exception import RequestFailed

from tests.harness.servers import client_of
from tests.tools.fake_github.conftest import refused
from tools.fake_github import FakeGitHub, Handle
from tools.fake_github.builder import RepositoryBuilder

AUTHORIZATION = {"Authorization": "Bearer maintainers-own-token"}


def test_former_name_redirects_to_the_repository_id(
    handle: Handle, web: RepositoryBuilder, person: GitHub[Any]
) -> None:
    pull = web.pull_request()
    person.rest.repos.update("acme", "web", name="site")
    with client_of(handle.base_url, headers=AUTHORIZATION, trust_env=False) as http:
        moved = http.get(f"/repos/acme/web/pulls/{pull.number}")
        target = f"{handle.base_url}/repositories/{web.record.id}/pulls/{pull.number}"
        assert (moved.status_code, moved.headers["Location"]) == (301, target)
        assert http.get(target).json()["base"]["repo"]["full_name"] == "acme/site"
        change = http.patch(f"/repos/acme/web/pulls/{pull.number}", json={"title": "New"}, follow_redirects=True)
        assert change.json()["title"] == "New"
    assert person.rest.repos.get("acme", "site").parsed_data.id == web.record.id


def test_new_repository_takes_over_a_former_name(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    person.rest.repos.update("acme", "web", name="site")
    made = person.rest.repos.create_in_org("acme", name="web").parsed_data
    assert person.rest.repos.get("acme", "web").parsed_data.id == made.id
    assert refused(person.rest.repos.update, "acme", "site", name="web")[0] == 422


def test_transferred_repository_is_lost_to_its_former_installation(
    github: FakeGitHub, web: RepositoryBuilder, person: GitHub[Any], bot: GitHub[Any]
) -> None:
    github.organization("globex")
    assert bot.rest.repos.get("acme", "web").parsed_data.id == web.record.id
    person.rest.repos.transfer("acme", "web", new_owner="globex")
    assert refused(bot.rest.repos.get, "acme", "web")[0] == 404


def test_archived_repository_is_read_only(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    pull = web.pull_request()
    person.rest.repos.update("acme", "web", archived=True)
    assert refused(person.rest.pulls.merge, "acme", "web", pull.number)[1] == "Repository was archived so is read-only."
    person.rest.repos.update("acme", "web", archived=False)
    assert person.rest.pulls.merge("acme", "web", pull.number).parsed_data.merged


def test_deleted_repository_is_gone_with_its_pull_requests(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    pull = web.pull_request()
    person.rest.repos.delete("acme", "web")
    with pytest.raises(RequestFailed):
        person.rest.repos.get("acme", "web")
    assert pull.node_id not in web.github.world.nodes


def test_repository_lists_are_paged_by_link_headers(github: FakeGitHub, bot: GitHub[Any]) -> None:
    for number in range(7):
        github.organization("acme").repository(f"r{number}")
    pages = bot.rest.paginate(
        bot.rest.apps.list_repos_accessible_to_installation,
        map_func=lambda answer: answer.parsed_data.repositories,
        per_page=3,
    )
    assert [repository.name for repository in pages] == [f"r{number}" for number in range(7)]
    last = bot.rest.apps.list_repos_accessible_to_installation(per_page=3, page=3)
    assert 'page=1>; rel="first"' in last.headers["Link"]
    assert 'rel="next"' not in last.headers["Link"]


def test_pull_requests_are_listed_by_state_base_head_and_order(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    web.branch("next")
    first, second, third = web.pull_request(), web.pull_request(base="next"), web.pull_request()
    person.rest.pulls.update("acme", "web", third.number, state="closed")

    def listed(**query: Any) -> list[int]:
        return [pull.number for pull in person.rest.pulls.list("acme", "web", **query).parsed_data]

    assert listed() == [second.number, first.number]
    assert listed(state="all", sort="created", direction="asc") == [first.number, second.number, third.number]
    assert listed(base="next") == [second.number]
    assert listed(head=f"acme:{first.head_ref}") == [first.number]
    assert listed(state="closed") == [third.number]


def test_pull_request_is_not_opened_twice_or_without_commits(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    pull = web.pull_request()
    web.branch("same")
    for head, reason in ((pull.head_ref, "A pull request already exists for acme:"), ("same", "No commits between")):
        with pytest.raises(RequestFailed) as refused:
            person.rest.pulls.create("acme", "web", title="Again", head=head, base="main")
        assert reason in refused.value.response.json()["errors"][0]["message"]
