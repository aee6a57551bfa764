"""What a pull request brings: its commits, its files and its reviews; and the commits of a branch."""

import base64
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from githubkit import GitHub

from tests.tools.fake_github.conftest import PLACE, refused
from tools.fake_github import FakeGitHub, persistence
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model.world import World

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def web(github: FakeGitHub, bot: GitHub[Any]) -> RepositoryBuilder:
    return github.organization("acme").repository("web", branches=("topic",))


def write(person: GitHub[Any], path: str, text: str, branch: str = "topic", **more: Any) -> Any:
    content = base64.b64encode(text.encode()).decode()
    change: Any = {"message": f"Write {path}", "content": content, "branch": branch, **more}
    return person.rest.repos.create_or_update_file_contents(*PLACE, path, data=change).parsed_data


def open_pull(person: GitHub[Any]) -> int:
    made = person.rest.pulls.create(*PLACE, data={"title": "Topic", "head": "topic", "base": "main"})
    return int(made.parsed_data.number)


def brought(client: GitHub[Any], number: int) -> tuple[list[str], list[tuple[str, str, int, int]]]:
    commits: Any = client.rest.pulls.list_commits(*PLACE, number).parsed_data
    files: Any = client.rest.pulls.list_files(*PLACE, number).parsed_data
    return [each.sha for each in commits], [
        (each.filename, each.status, each.additions, each.deletions) for each in files
    ]


def test_pull_request_lists_commits_and_files_before_and_after_its_merge(
    web: RepositoryBuilder, person: GitHub[Any], bot: GitHub[Any]
) -> None:
    kept: Any = write(person, "kept.txt", "a\nb\n", "main").content
    person.rest.git.update_ref(*PLACE, "heads/topic", data={"sha": web.record.branches["main"]})
    made = [write(person, "new.txt", "hello\n").commit.sha]
    made.append(write(person, "kept.txt", "a\nc\nd\n", sha=kept.sha).commit.sha)
    number = open_pull(person)
    write(person, "other.txt", "elsewhere", "main")
    expected = (made, [("kept.txt", "modified", 2, 1), ("new.txt", "added", 1, 0)])
    assert brought(bot, number) == expected
    shown = bot.rest.pulls.get(*PLACE, number).parsed_data
    assert (shown.commits, shown.changed_files, shown.additions, shown.deletions) == (2, 2, 3, 1)
    person.rest.pulls.merge(*PLACE, number)
    assert brought(bot, number) == expected


def test_pull_request_does_not_list_what_its_base_brought(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    own = write(person, "own.txt", "mine").commit.sha
    base = write(person, "base.txt", "theirs", "main").commit.sha
    data: Any = {"message": "Update the branch", "tree": own, "parents": [own, base]}
    merged = person.rest.git.create_commit(*PLACE, data=data).parsed_data.sha
    person.rest.git.update_ref(*PLACE, "heads/topic", data={"sha": merged})
    assert brought(person, open_pull(person)) == ([own, merged], [("own.txt", "added", 1, 0)])


def test_file_that_is_changed_back_is_not_listed(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    first: Any = write(person, "a.txt", "one", "main").content
    person.rest.git.update_ref(*PLACE, "heads/topic", data={"sha": web.record.branches["main"]})
    second: Any = write(person, "a.txt", "two", sha=first.sha).content
    write(person, "a.txt", "one", sha=second.sha)
    assert brought(person, open_pull(person))[1] == []


def test_reviews_survive_a_restart(web: RepositoryBuilder, github: FakeGitHub, person: GitHub[Any]) -> None:
    pull = web.pull_request()
    for event, body in (("REQUEST_CHANGES", "Not yet"), ("COMMENT", "Better"), ("APPROVE", "")):
        review: Any = {"event": event, "body": body}
        person.rest.pulls.create_review(*PLACE, pull.number, data=review)
    assert pull.review_decision == "APPROVED"
    world = World()
    persistence.restore(world, orjson.loads(persistence.dump(github)))
    assert world.repository_named("acme/web").pulls[pull.number] == pull


@pytest.mark.parametrize("reference", ["heads/release/1", "heads%2Frelease%2F1"])
def test_reference_is_found_with_and_without_encoded_slashes(
    web: RepositoryBuilder, bot: GitHub[Any], reference: str
) -> None:
    web.branch("release/1")
    found = bot.request("GET", f"/repos/acme/web/git/ref/{reference}").json()
    assert found["ref"] == "refs/heads/release/1"


def test_reference_of_another_kind_is_not_found(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    assert refused(bot.rest.git.get_ref, *PLACE, "tags/main")[0] == 404


@pytest.mark.parametrize(
    ("level", "permission", "role"),
    [
        ("pull", "read", "read"),
        ("triage", "read", "triage"),
        ("push", "write", "write"),
        ("maintain", "write", "maintain"),
        ("admin", "admin", "admin"),
        (None, "none", "none"),
    ],
)
def test_permission_of_a_collaborator_follows_their_rights(
    web: RepositoryBuilder, github: FakeGitHub, bot: GitHub[Any], level: str | None, permission: str, role: str
) -> None:
    github.world.add_account("ada", "User")
    github.oauth.rights["ada"] = {"acme/web": level} if level else {}
    found = bot.rest.repos.get_collaborator_permission_level(*PLACE, "ada").parsed_data
    assert (found.permission, found.role_name) == (permission, role)


def test_permission_of_an_unknown_person_is_not_found(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    assert refused(bot.rest.repos.get_collaborator_permission_level, *PLACE, "nobody")[0] == 404
