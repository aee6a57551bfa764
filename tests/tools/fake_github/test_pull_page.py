"""The page of a pull request: checks with their texts and buttons, and the box that merges."""

import httpx
import pytest

from tools.fake_github import FakeGitHub
from tools.fake_github.model.checks import create_check_run
from tools.fake_github.model.records import PullRequest
from tools.fake_github.model.world import Actor

TABLE = "| a | b |\n|---|---|\n| 1 | 2 |"
OUTPUT = {"title": "A freeze forbids merging", "summary": "**Release 4.2** <b>", "text": TABLE}


@pytest.fixture
def pull(github: FakeGitHub) -> PullRequest:
    return github.organization("acme").repository("web").pull_request()


def page(http: httpx.Client, pull: PullRequest) -> str:
    answer = http.get(f"/acme/web/pull/{pull.number}")
    assert answer.status_code == 200, answer.text
    return answer.text


def check(github: FakeGitHub, pull: PullRequest) -> None:
    repository = github.world.repository_named("acme/web")
    fields = {
        "name": "change-freeze/main",
        "head_sha": pull.head_sha,
        "status": "completed",
        "conclusion": "failure",
        "details_url": "https://freeze.test/pulls?ref=acme%2Fweb%231",
        "output": OUTPUT,
        "actions": [{"label": "Ask", "description": "Ask for an exception", "identifier": "request"}],
    }
    create_check_run(github.world, Actor(github.maintainer), github.app.id, repository, fields)


def test_page_shows_the_check_with_its_text_button_and_details(
    http: httpx.Client, github: FakeGitHub, pull: PullRequest
) -> None:
    check(github, pull)
    text = page(http, pull)
    assert "A freeze forbids merging" in text
    assert "<strong>Release 4.2</strong> &lt;b&gt;" in text
    assert "<td>1</td>" in text
    assert "https://freeze.test/pulls?ref=acme%2Fweb%231" in text
    assert "value='request'" in text


def test_pull_request_is_merged_from_its_page(http: httpx.Client, pull: PullRequest) -> None:
    assert "Merge pull request" in page(http, pull)
    answer = http.post(f"/acme/web/pull/{pull.number}", data={"do": "merge"})
    assert answer.status_code == 303
    assert pull.merged_at is not None
    assert ">Merged<" in page(http, pull)
    again = http.post(f"/acme/web/pull/{pull.number}", data={"do": "merge"})
    assert "Pull Request is not mergeable" in again.text


def test_unknown_pull_request_has_no_page(http: httpx.Client, pull: PullRequest) -> None:
    for path in (f"/acme/none/pull/{pull.number}", "/acme/web/pull/999"):
        assert http.get(path).status_code == 404
