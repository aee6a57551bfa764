"""Direct pushes are held to the same rules as merges; pushes to a head give the pull request a new one."""

from typing import Any

import pytest
from githubkit import GitHub
from githubkit.exception import RequestFailed

from tests.tools.fake_github.conftest import CHECK, PLACE, refused
from tools.fake_github import FakeGitHub
from tools.fake_github.builder import RepositoryBuilder

TEXT = "aGVsbG8="


@pytest.fixture
def web(github: FakeGitHub, bot: GitHub[Any]) -> RepositoryBuilder:
    return github.organization("acme").repository("web", branches=("free",)).requires(CHECK)


def put(client: GitHub[Any], branch: str, path: str = "a.txt", **more: Any) -> Any:
    change: Any = {"message": "Change", "content": TEXT, "branch": branch, **more}
    return client.rest.repos.create_or_update_file_contents(*PLACE, path, data=change).parsed_data


def commit(person: GitHub[Any], *parents: str) -> str:
    data: Any = {"message": "By hand", "tree": parents[0], "parents": list(parents)}
    return str(person.rest.git.create_commit(*PLACE, data=data).parsed_data.sha)


def test_direct_push_is_rejected_like_a_merge(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    tip = web.record.branches["main"]
    expected = f'Repository rule violations found\n\nRequired status check "{CHECK}" is expected.\n\n'
    assert refused(put, person, "main") == (409, expected)
    sha = commit(person, tip)
    assert refused(person.rest.git.update_ref, *PLACE, "heads/main", sha=sha) == (422, expected)
    assert web.record.branches["main"] == tip


def test_direct_push_of_a_passing_commit_is_accepted(
    web: RepositoryBuilder, person: GitHub[Any], bot: GitHub[Any]
) -> None:
    sha = commit(person, web.record.branches["main"])
    bot.rest.checks.create(*PLACE, name=CHECK, head_sha=sha, status="completed", conclusion="success")
    person.rest.git.update_ref(*PLACE, "heads/main", sha=sha)
    assert web.record.branches["main"] == sha


def test_push_to_a_branch_without_rules_is_accepted(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    assert put(person, "free").commit.sha == web.record.branches["free"]


def test_push_replaces_the_head_of_a_pull_request_without_checks(
    web: RepositoryBuilder, person: GitHub[Any], bot: GitHub[Any]
) -> None:
    pull = web.pull_request(checks={CHECK: "success"})
    sha = put(person, pull.head_ref).commit.sha
    assert person.rest.pulls.get(*PLACE, pull.number).parsed_data.head.sha == sha
    assert refused(person.rest.pulls.merge, *PLACE, pull.number)[0] == 405


def test_only_a_force_push_rewrites_history(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    first = web.record.branches["free"]
    put(person, "free")
    other = commit(person, first)
    update = person.rest.git.update_ref
    assert refused(update, *PLACE, "heads/free", sha=other) == (422, "Update is not a fast forward")
    update(*PLACE, "heads/free", sha=other, force=True)
    assert web.record.branches["free"] == other


def test_file_is_replaced_only_with_its_current_blob(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    written = put(person, "free")
    assert refused(put, person, "free")[0] == 422
    assert refused(put, person, "free", sha="0" * 40) == (409, f"a.txt does not match {'0' * 40}")
    assert put(person, "free", sha=written.content.sha).commit.sha == web.record.branches["free"]


def test_default_branch_cannot_be_deleted(github: FakeGitHub, person: GitHub[Any]) -> None:
    github.organization("acme").repository("web", branches=("next",))
    delete = person.rest.git.delete_ref
    assert refused(delete, *PLACE, "heads/main") == (422, "Cannot delete the default branch")
    person.rest.repos.update(*PLACE, default_branch="next")
    assert delete(*PLACE, "heads/main").status_code == 204


def test_deleted_branch_closes_its_pull_requests(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    pull = web.pull_request()
    person.rest.git.delete_ref(*PLACE, f"heads/{pull.head_ref}")
    assert person.rest.pulls.get(*PLACE, pull.number).parsed_data.state == "closed"
    with pytest.raises(RequestFailed):
        person.rest.pulls.update(*PLACE, pull.number, state="open")


def test_branch_is_created_when_rules_allow(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    web.requires("change-freeze/release", "release/*")
    tip, create = web.record.branches["main"], person.rest.git.create_ref
    assert refused(create, *PLACE, ref="refs/heads/release/1", sha=tip)[0] == 422
    assert refused(create, *PLACE, ref="refs/heads/free", sha=tip) == (422, "Reference already exists")
    assert refused(create, *PLACE, ref="refs/heads/a..b", sha=tip)[0] == 422
    assert refused(create, *PLACE, ref="refs/heads/x", sha="0" * 40) == (422, "Object does not exist")
    create(*PLACE, ref="refs/heads/release/1/hotfix", sha=tip)
    assert web.record.branches["release/1/hotfix"] == tip


def test_installation_without_permission_cannot_push(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    assert refused(put, bot, "free") == (403, "Resource not accessible by integration")
