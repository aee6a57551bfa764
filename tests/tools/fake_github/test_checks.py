"""Check runs: only Apps write them, completed ones are immutable, the newest of a name counts."""

from functools import partial
from typing import Any

import pytest
from githubkit import GitHub
from githubkit.exception import RequestFailed

from tools.fake_github import FakeGitHub
from tools.fake_github.model.records import PullRequest

CHECK = "change-freeze/main"
PLACE = ("acme", "web")
ANNOTATION = {"path": "a.txt", "start_line": 1, "end_line": 1, "annotation_level": "notice", "message": "Look"}


@pytest.fixture
def pull(github: FakeGitHub, bot: GitHub[Any]) -> PullRequest:
    return github.organization("acme").repository("web").pull_request()


def refused(call: Any) -> tuple[int, str]:
    with pytest.raises(RequestFailed) as failure:
        call()
    return failure.value.response.status_code, failure.value.response.json()["message"]


def create(client: GitHub[Any], sha: str, **more: Any) -> Any:
    fields: Any = {"name": CHECK, "head_sha": sha, **more}
    return client.rest.checks.create(*PLACE, data=fields).parsed_data


def test_completed_check_run_keeps_its_conclusion(pull: PullRequest, bot: GitHub[Any]) -> None:
    run = create(bot, pull.head_sha, conclusion="success")
    assert run.status == "completed"
    update = bot.rest.checks.update
    assert refused(lambda: update(*PLACE, run.id, conclusion="failure"))[0] == 422
    assert refused(lambda: update(*PLACE, run.id, status="in_progress"))[0] == 422
    data: Any = {"conclusion": "success", "output": {"title": "Still open", "summary": "No freeze"}}
    assert update(*PLACE, run.id, data=data).parsed_data.output.title == "Still open"


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
    found = bot.rest.checks.list_suites_for_ref(*PLACE, pull.head_sha, check_name="other").parsed_data
    assert [suite.id for suite in found.check_suites] == [first.check_suite.id]


def test_annotations_are_added_by_every_update(pull: PullRequest, bot: GitHub[Any]) -> None:
    output: Any = {"title": "Lint", "summary": "Two faults", "annotations": [ANNOTATION]}
    run = create(bot, pull.head_sha, output=output)
    output["annotations"] = [{**ANNOTATION, "message": "Again"}]
    assert bot.rest.checks.update(*PLACE, run.id, data={"output": output}).parsed_data.output.annotations_count == 2
    listed = bot.rest.checks.list_annotations(*PLACE, run.id).parsed_data
    assert [each.message for each in listed] == ["Look", "Again"]


def test_people_cannot_write_checks(pull: PullRequest, person: GitHub[Any]) -> None:
    assert refused(lambda: create(person, pull.head_sha))[0] == 403


def test_installation_requires_permission_to_write_checks(
    github: FakeGitHub, pull: PullRequest, bot: GitHub[Any]
) -> None:
    github.world.installations[1001].permissions = {"metadata": "read", "checks": "read"}
    with pytest.raises(RequestFailed) as failure:
        create(bot, pull.head_sha)
    assert failure.value.response.headers["X-Accepted-GitHub-Permissions"] == "checks=write"
    assert refused(lambda: create(bot, pull.head_sha)) == (403, "Resource not accessible by integration")


def test_repository_not_selected_is_not_found(github: FakeGitHub, pull: PullRequest, bot: GitHub[Any]) -> None:
    github.world.installations[1001].repository_selection = "selected"
    assert refused(lambda: create(bot, pull.head_sha)) == (404, "Not Found")


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


def test_check_run_of_another_app_cannot_be_changed(github: FakeGitHub, pull: PullRequest, bot: GitHub[Any]) -> None:
    run = create(bot, pull.head_sha)
    github.world.runs[run.id].app_id = 99
    assert refused(lambda: bot.rest.checks.update(*PLACE, run.id, status="in_progress"))[0] == 404
