"""Check runs: only Apps write them, completed ones are immutable, the newest of a name counts."""

from functools import partial
from typing import Any

import pytest
from githubkit import GitHub
from githubkit.exception import RequestFailed

from tests.tools.fake_github.conftest import CHECK, PLACE, refused
from tools.fake_github import FakeGitHub
from tools.fake_github.model.records import PullRequest

ANNOTATION = {"path": "a.txt", "start_line": 1, "end_line": 1, "annotation_level": "notice", "message": "Look"}


@pytest.fixture
def pull(github: FakeGitHub, bot: GitHub[Any]) -> PullRequest:
    return github.organization("acme").repository("web").pull_request()


def create(client: GitHub[Any], sha: str, **more: Any) -> Any:
    fields: Any = {"name": CHECK, "head_sha": sha, **more}
    return client.rest.checks.create(*PLACE, data=fields).parsed_data


def test_newest_check_run_of_a_name_is_the_latest(pull: PullRequest, bot: GitHub[Any]) -> None:
    runs = [create(bot, pull.head_sha, conclusion=each).id for each in ("failure", "success", "failure")]
    create(bot, pull.head_sha, name="other", conclusion="success")
    listing = bot.rest.checks.list_for_ref
    latest = listing(*PLACE, pull.head_sha, check_name=CHECK).parsed_data
    assert [run.id for run in latest.check_runs] == [runs[-1]]
    every = listing(*PLACE, pull.head_ref, check_name=CHECK, filter_="all", app_id=4242).parsed_data
    assert sorted(run.id for run in every.check_runs) == sorted(runs)
    assert listing(*PLACE, pull.head_sha, app_id=1).parsed_data.total_count == 0


def test_check_runs_of_an_app_on_a_commit_share_a_suite(pull: PullRequest, bot: GitHub[Any]) -> None:
    first, second = create(bot, pull.head_sha), create(bot, pull.head_sha, name="other")
    assert first.check_suite.id == second.check_suite.id


def test_people_cannot_write_checks(pull: PullRequest, person: GitHub[Any]) -> None:
    assert refused(create, person, pull.head_sha)[0] == 403


def test_installation_requires_permission_to_write_checks(
    github: FakeGitHub, pull: PullRequest, bot: GitHub[Any]
) -> None:
    github.world.installations[1001].permissions = {"metadata": "read", "checks": "read"}
    with pytest.raises(RequestFailed) as failure:
        create(bot, pull.head_sha)
    assert failure.value.response.headers["X-Accepted-GitHub-Permissions"] == "checks=write"
    assert refused(create, bot, pull.head_sha) == (403, "Resource not accessible by integration")


def test_repository_not_selected_is_not_found(github: FakeGitHub, pull: PullRequest, bot: GitHub[Any]) -> None:
    github.world.installations[1001].repository_selection = "selected"
    assert refused(create, bot, pull.head_sha) == (404, "Not Found")


def test_invalid_check_run_is_rejected(pull: PullRequest, bot: GitHub[Any]) -> None:
    cases: list[dict[str, Any]] = [
        {"head_sha": "0" * 40},
        {"status": "done"},
        {"status": "completed"},
        {"conclusion": "stale"},
        {"output": {"summary": "no title"}},
        {"output": {"title": "Long", "summary": "s" * 65536}},
        {"output": {"title": "Bad", "summary": "s", "annotations": [{"path": "a.txt"}]}},
        {"output": {"title": "Bad", "summary": "s", "annotations": [{**ANNOTATION, "annotation_level": "bad"}]}},
        {"output": {"title": "Many", "summary": "s", "annotations": [ANNOTATION] * 51}},
        {"actions": [{"label": "x", "description": "y", "identifier": "z"}] * 4},
        {"actions": [{"label": "x" * 21, "description": "y", "identifier": "z"}]},
    ]
    for fields in cases:
        body: Any = {"name": CHECK, "head_sha": pull.head_sha, **fields}  # sent raw: the typed client would not send it
        assert refused(partial(bot.request, "POST", "/repos/acme/web/check-runs", json=body))[0] == 422, fields
