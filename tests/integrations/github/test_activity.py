"""Reading what landed on a branch: no further than asked, and nothing that cannot be read."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from integrations.github import GitHub, GitHubError
from tests.integrations.github.scripted_server import Reply, Script

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ROUTE = "GET /repos/acme/web/activity"
PULLS = f"GET /repos/acme/web/commits/{'a' * 40}/pulls"


def entry(minute: int, **other: Any) -> dict[str, Any]:
    return {
        "before": "0" * 40,
        "after": f"{minute:040x}",
        "timestamp": f"2026-11-21T12:{minute:02}:00Z",
        "activity_type": "push",
        "actor": {"login": "ann"},
    } | other


def page(script: Script, *minutes: int, more: bool = False) -> Reply:
    link = f'<{script.base}/repos/acme/web/activity?after=x>; rel="next"'
    return Reply([entry(minute) for minute in minutes], headers={"Link": link} if more else {})


def test_activity_pages_are_read_back_to_the_given_instant(github: GitHub, script: Script) -> None:
    script.then(ROUTE, page(script, 9, 8, more=True), page(script, 7, 6, more=True), page(script, 5))
    found = github.client(7).activity("acme", "web", "release/9", NOON + timedelta(minutes=7))
    assert [each.instant.minute for each in found] == [9, 8, 7]
    asked = script.asked(ROUTE)
    assert len(asked) == 2
    assert "ref=refs%2Fheads%2Frelease%2F9" in asked[0].path


def test_activity_is_read_to_the_last_page_when_all_is_newer(github: GitHub, script: Script) -> None:
    script.then(ROUTE, page(script, 9, more=True), page(script, 8))
    assert len(github.client(7).activity("acme", "web", "main", NOON)) == 2


def test_activity_of_a_deleted_account_has_no_actor(github: GitHub, script: Script) -> None:
    script.then(ROUTE, Reply([entry(1, actor=None)]))
    (found,) = github.client(7).activity("acme", "web", "main", NOON)
    assert found.actor is None


@pytest.mark.parametrize("broken", [{"timestamp": "yesterday"}, {"timestamp": None}, {"actor": "ann"}])
def test_unreadable_activity_is_a_transient_error(github: GitHub, script: Script, broken: dict[str, Any]) -> None:
    script.then(ROUTE, Reply([entry(1, **broken)]))
    with pytest.raises(GitHubError) as raised:
        github.client(7).activity("acme", "web", "main", NOON)
    assert raised.value.transient


def test_pull_requests_of_a_commit_have_their_merge_instant(github: GitHub, script: Script) -> None:
    common = {"base": {"ref": "main"}, "head": {"sha": "b" * 40}}
    merged = {"number": 1, "merged_at": "2026-11-21T12:00:00Z", **common}
    script.then(PULLS, Reply([merged, {"number": 2, "merged_at": None, **common}]))
    found = github.client(7).pulls_of_commit("acme", "web", "a" * 40)
    assert [(pull.number, pull.merged_at) for pull in found] == [(1, NOON), (2, None)]
    assert (found[0].base_ref, found[0].head_sha) == ("main", "b" * 40)
