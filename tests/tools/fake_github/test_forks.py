"""Pull requests of forks: their heads are elsewhere, whatever the branch is named."""

from typing import Any

import pytest
from githubkit import GitHub

from tests.tools.fake_github.conftest import PLACE
from tools.fake_github import FakeGitHub
from tools.fake_github.builder import RepositoryBuilder


@pytest.fixture
def web(github: FakeGitHub) -> RepositoryBuilder:
    return github.organization("acme").repository("web", branches=("topic",))


def test_push_to_a_fork_is_a_new_head_and_one_to_the_same_name_is_not(
    github: FakeGitHub, person: GitHub[Any], web: RepositoryBuilder
) -> None:
    pull = web.pull_request(head="topic", fork="mallory")
    first = pull.head_sha
    change: Any = {"message": "More", "content": "aGVsbG8=", "branch": "topic"}
    person.rest.repos.create_or_update_file_contents(*PLACE, "a.txt", data=change)
    assert pull.head_sha == first
    person.rest.repos.create_or_update_file_contents("mallory", "web", "b.txt", data=change)
    shown: Any = person.rest.pulls.get(*PLACE, pull.number).parsed_data
    assert (shown.head.sha, shown.head.repo.full_name, shown.commits) == (pull.head_sha, "mallory/web", 2)
    assert pull.head_sha != first
    files: Any = person.rest.pulls.list_files(*PLACE, pull.number).parsed_data
    assert [file.filename for file in files] == ["b.txt", f"changes/{pull.number}.txt"]


def test_branch_of_the_same_name_outlives_the_merge_of_a_fork(person: GitHub[Any], web: RepositoryBuilder) -> None:
    pull = web.pull_request(head="topic", fork="mallory")
    web.record.delete_branch_on_merge = True
    assert person.rest.pulls.merge(*PLACE, pull.number).parsed_data.merged
    assert "topic" in web.record.branches


def test_head_of_a_fork_that_is_gone_has_no_repository(person: GitHub[Any], web: RepositoryBuilder) -> None:
    pull = web.pull_request(fork="mallory")
    del web.github.world.repositories[pull.fork_id or 0]
    shown: Any = person.rest.pulls.get(*PLACE, pull.number).parsed_data
    assert shown.head.repo is None
    text = "query($id:ID!){node(id:$id){...on PullRequest{isCrossRepository headRepository{id} headRef{name}}}}"
    assert person.graphql(text, {"id": pull.node_id})["node"] == {
        "isCrossRepository": True,
        "headRepository": None,
        "headRef": None,
    }
