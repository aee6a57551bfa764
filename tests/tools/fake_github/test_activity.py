"""The activity of a repository: who moved a branch, when, and how."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

from githubkit import GitHub

from tests.tools.fake_github.conftest import CHECK, PLACE, refused
from tools.fake_github import FakeGitHub
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model.queue import enqueue
from tools.fake_github.model.world import Actor

NOTHING = "0" * 40


def write_file(person: GitHub[Any], name: str, branch: str = "main") -> str:
    text = base64.b64encode(name.encode()).decode()
    change: Any = {"message": name, "content": text, "branch": branch}
    return str(person.rest.repos.create_or_update_file_contents(*PLACE, name, data=change).parsed_data.commit.sha)


def listed(client: GitHub[Any], ref: str = "refs/heads/main", **query: Any) -> list[Any]:
    return list(client.rest.repos.list_activities(*PLACE, ref=ref, **query).parsed_data)


def kinds(client: GitHub[Any], ref: str = "refs/heads/main", **query: Any) -> list[str]:
    return [each.activity_type for each in listed(client, ref, **query)]


def test_each_branch_update_has_its_activity_type(
    web: RepositoryBuilder, person: GitHub[Any], bot: GitHub[Any]
) -> None:
    start = web.record.branches["main"]
    write_file(person, "a")
    person.rest.pulls.merge(*PLACE, web.pull_request().number)
    person.rest.git.update_ref(*PLACE, "heads/main", data={"sha": start, "force": True})
    assert kinds(bot) == ["force_push", "pr_merge", "push"]
    person.rest.git.create_ref(*PLACE, data={"ref": "refs/heads/topic", "sha": start})
    person.rest.git.delete_ref(*PLACE, "heads/topic")
    topic = listed(bot, "topic")
    assert [each.activity_type for each in topic] == ["branch_deletion", "branch_creation"]
    assert [(each.before, each.after) for each in topic] == [(start, NOTHING), (NOTHING, start)]


def test_merge_activity_has_actor_commits_and_whole_seconds(
    web: RepositoryBuilder, github: FakeGitHub, person: GitHub[Any], bot: GitHub[Any]
) -> None:
    before, pull = web.record.branches["main"], web.pull_request()
    github.world.clock = lambda: datetime(2026, 11, 21, 12, 0, 0, 999_999, tzinfo=UTC)
    merged = person.rest.pulls.merge(*PLACE, pull.number).parsed_data
    (found,) = listed(person)
    assert (found.before, found.after, found.ref) == (before, merged.sha, "refs/heads/main")
    assert found.timestamp == datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert found.actor.login == "maintainer"


def test_merge_queue_merges_its_own_commit(web: RepositoryBuilder, github: FakeGitHub, bot: GitHub[Any]) -> None:
    web.merge_queue().requires(CHECK)
    pull = web.pull_request(checks={CHECK: "success"})
    entry = enqueue(github.world, Actor(github.maintainer), web.record, pull)
    report: Any = {"name": CHECK, "head_sha": entry.head_sha, "conclusion": "success"}
    bot.rest.checks.create(*PLACE, data=report)
    (found,) = listed(bot)
    assert (found.activity_type, found.after) == ("merge_queue_merge", entry.head_sha)


def test_activity_pages_follow_a_cursor(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    made = [write_file(person, f"file-{number}") for number in range(5)]
    first = person.rest.repos.list_activities(*PLACE, per_page=2)
    url = str(first.raw_response.links["next"]["url"])
    second = person.request("GET", url)
    third = person.request("GET", str(second.raw_response.links["next"]["url"]))
    seen = [each["after"] for page in (first, second, third) for each in page.json()]
    assert seen == made[::-1]
    assert "next" not in third.raw_response.links
    back = person.request("GET", str(third.raw_response.links["prev"]["url"]))
    assert back.json() == second.json()


def test_activities_are_filtered_by_type_and_actor_in_either_order(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    write_file(person, "a")
    person.rest.pulls.merge(*PLACE, web.pull_request().number)
    assert kinds(person, activity_type="push") == ["push"]
    assert kinds(person, actor="maintainer", direction="asc") == ["push", "pr_merge"]
    assert kinds(person, actor="nobody") == []


def test_unknown_activity_cursor_is_rejected(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    assert refused(listed, person, after="nowhere")[0] == 422


def test_commit_has_the_pull_requests_that_introduced_the_change(
    web: RepositoryBuilder, person: GitHub[Any], bot: GitHub[Any]
) -> None:
    pull, given_up = web.pull_request(), web.pull_request()
    person.rest.pulls.update(*PLACE, given_up.number, data={"state": "closed"})
    sha = person.rest.pulls.merge(*PLACE, pull.number).parsed_data.sha
    find = bot.rest.repos.list_pull_requests_associated_with_commit
    for commit in (sha, pull.head_sha):
        (found,) = find(*PLACE, commit).parsed_data
        assert found.number == pull.number
        assert found.merged_at is not None
    assert not find(*PLACE, given_up.head_sha).parsed_data
    assert not find(*PLACE, write_file(person, "a")).parsed_data


def test_every_check_run_is_listed_with_its_completion_second(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    pull, start = web.pull_request(), datetime.now(UTC).replace(microsecond=0)
    for number, conclusion in enumerate(("success", "failure")):
        web.github.world.clock = lambda number=number: start + timedelta(seconds=number, milliseconds=900)  # type: ignore[misc]
        report: Any = {"name": CHECK, "head_sha": pull.head_sha, "conclusion": conclusion}
        bot.rest.checks.create(*PLACE, data=report)
    runs = bot.rest.checks.list_for_ref(*PLACE, pull.head_sha, check_name=CHECK, filter_="all").parsed_data.check_runs
    assert [(run.conclusion, run.completed_at) for run in runs] == [
        ("failure", start + timedelta(seconds=1)),
        ("success", start),
    ]
