"""A required check decides whether a pull request can be merged, in the code host's own words."""

from typing import Any

import pytest
from githubkit import GitHub
from githubkit.exception import RequestFailed

from tools.codehost import CodeHost

CHECK = "change-freeze/main"


def report(bot: GitHub[Any], sha: str, conclusion: str, name: str = CHECK) -> Any:
    return bot.rest.checks.create(
        "acme", "web", data={"name": name, "head_sha": sha, "status": "completed", "conclusion": conclusion}
    ).parsed_data


def merge_refusal(person: GitHub[Any], number: int) -> tuple[int, str]:
    with pytest.raises(RequestFailed) as refused:
        person.rest.pulls.merge("acme", "web", number)
    return refused.value.response.status_code, refused.value.response.json()["message"]


def test_a_merge_is_refused_while_the_required_check_is_missing(
    host: CodeHost, person: GitHub[Any], bot: GitHub[Any]
) -> None:
    pull = host.organization("acme").repository("web").requires(CHECK).pull_request()
    status, message = merge_refusal(person, pull.number)
    assert status == 405
    assert message == f'Repository rule violations found\n\nRequired status check "{CHECK}" is expected.\n\n'


def test_a_merge_is_refused_while_the_required_check_is_failing(
    host: CodeHost, person: GitHub[Any], bot: GitHub[Any]
) -> None:
    pull = host.organization("acme").repository("web").requires(CHECK).pull_request()
    report(bot, pull.head_sha, "success")
    report(bot, pull.head_sha, "failure")
    status, message = merge_refusal(person, pull.number)
    assert status == 405
    assert f'Required status check "{CHECK}" is failing.' in message


def test_a_merge_is_accepted_once_the_newest_run_succeeds(
    host: CodeHost, person: GitHub[Any], bot: GitHub[Any]
) -> None:
    web = host.organization("acme").repository("web").requires(CHECK)
    pull = web.pull_request()
    report(bot, pull.head_sha, "failure")
    report(bot, pull.head_sha, "success")
    merged = person.rest.pulls.merge("acme", "web", pull.number).parsed_data
    assert merged.merged
    assert web.record.branches["main"] == merged.sha
    assert person.rest.pulls.get("acme", "web", pull.number).parsed_data.merged
