"""Every way in which GitHub refuses has its code, its pause and its word on what may have happened."""

import time
import traceback
from email.utils import formatdate
from typing import Any

import pytest

from integrations.github import CheckWrite, ErrorKind, GitHub, GitHubError
from tests.integrations.github.conftest import WallClock
from tests.integrations.github.scripted_server import TOKEN_PATH, Reply, Script, granted, hang_up

REPOSITORY = "GET /repositories/9"
GRAPHQL = "POST /graphql"
SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
WRITE = CheckWrite("R_1", "Change freeze", "a" * 40, "failure", "Frozen", "Until Monday", "g1")


def refused(github: GitHub) -> GitHubError:
    with pytest.raises(GitHubError) as caught:
        github.client(7).repository(9)
    return caught.value


def refused_write(github: GitHub) -> GitHubError:
    with pytest.raises(GitHubError) as caught:
        github.client(7).write_checks([WRITE])
    return caught.value


def spent(seconds: int) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": "5000",
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": str(int(time.time()) + seconds),
        "X-RateLimit-Resource": "core",
    }


@pytest.mark.parametrize(
    ("status", "message", "code", "kind"),
    [
        (403, "Resource not accessible by integration", "github_permission_denied", ErrorKind.PERMISSION),
        (404, "Not Found", "repository_not_found", ErrorKind.NOT_FOUND),
        (410, "Gone", "repository_not_found", ErrorKind.NOT_FOUND),
        (451, "Repository access blocked", "github_permission_denied", ErrorKind.PERMISSION),
        (422, "No commit found for SHA", "github_rejected", ErrorKind.REJECTED),
        (403, SECONDARY, "github_secondary_rate_limit", ErrorKind.SECONDARY_RATE_LIMIT),
        (429, SECONDARY, "github_secondary_rate_limit", ErrorKind.SECONDARY_RATE_LIMIT),
        (429, "Slow down", "github_secondary_rate_limit", ErrorKind.SECONDARY_RATE_LIMIT),
        (403, "API rate limit exceeded for installation ID 7.", "github_rate_limited", ErrorKind.RATE_LIMIT),
        (403, "This installation has been suspended", "installation_suspended", ErrorKind.INSTALLATION_SUSPENDED),
        (500, "Server Error", "github_unavailable", ErrorKind.UNAVAILABLE),
        (502, "Bad gateway", "github_unavailable", ErrorKind.UNAVAILABLE),
        (503, "No server is available", "github_unavailable", ErrorKind.UNAVAILABLE),
    ],
)
def test_each_github_error_has_its_code(
    github: GitHub, script: Script, status: int, message: str, code: str, kind: ErrorKind
) -> None:
    script.then(REPOSITORY, Reply({"message": message}, status))
    error = refused(github)
    assert (error.code, error.kind, error.status) == (code, kind, status)


def test_permission_error_names_the_required_permission(github: GitHub, script: Script) -> None:
    headers = {"X-Accepted-GitHub-Permissions": "administration=write"}
    script.then(REPOSITORY, Reply({"message": "Resource not accessible by integration"}, 403, headers))
    assert "administration=write" in refused(github).message


@pytest.mark.parametrize("status", [403, 429])
def test_exhausted_quota_waits_until_its_reset(github: GitHub, script: Script, status: int) -> None:
    script.then(REPOSITORY, Reply({"message": "API rate limit exceeded"}, status, spent(120)))
    error = refused(github)
    assert error.code == "github_rate_limited"
    assert error.retry_after == pytest.approx(120, abs=3)


def test_wait_is_measured_by_githubs_clock_when_clocks_differ(github: GitHub, script: Script) -> None:
    there = time.time() + 600
    headers = {**spent(600 + 90), "Date": formatdate(there, usegmt=True)}
    script.then(REPOSITORY, Reply({"message": "API rate limit exceeded"}, 403, headers))
    assert refused(github).retry_after == pytest.approx(90, abs=3)


def test_exhausted_rest_quota_does_not_stop_graphql(github: GitHub, script: Script, clock: WallClock) -> None:
    script.then(REPOSITORY, Reply({"message": "API rate limit exceeded"}, 403, spent(120)))
    script.then(GRAPHQL, Reply({"data": {"c0": {"checkRun": {"databaseId": 5}}}}))
    refused(github)
    assert github.client(7).write_checks([WRITE])[0].check_run_id == 5
    again = refused(github)
    assert again.retry_after == pytest.approx(120, abs=3)
    assert len(script.asked(REPOSITORY)) == 1


def test_secondary_limit_pauses_the_whole_installation_until_its_end(
    github: GitHub, script: Script, clock: WallClock
) -> None:
    script.then(REPOSITORY, Reply({"message": SECONDARY}, 403, {"Retry-After": "30"}))
    script.then(GRAPHQL, Reply({"data": {"c0": {"checkRun": {"databaseId": 5}}}}))
    assert refused(github).retry_after == 30
    clock.offset = 20
    waiting = refused_write(github)
    assert (waiting.code, waiting.maybe_applied) == ("github_secondary_rate_limit", False)
    assert waiting.retry_after == pytest.approx(10, abs=1)
    assert script.asked(GRAPHQL) == []
    assert github.client(7).budget.paused_until is not None
    clock.offset = 31
    assert github.client(7).write_checks([WRITE])[0].check_run_id == 5
    assert github.client(7).budget.paused_until is None


def test_secondary_limit_does_not_pause_another_installation(github: GitHub, script: Script) -> None:
    script.then(REPOSITORY, Reply({"message": SECONDARY}, 403, {"Retry-After": "30"}))
    refused(github)
    script.always["POST /app/installations/8/access_tokens"] = granted()
    script.then(REPOSITORY, Reply({"message": "Not Found"}, 404))
    with pytest.raises(GitHubError) as caught:
        github.client(8).repository(9)
    assert caught.value.code == "repository_not_found"


def test_secondary_limit_without_retry_after_backs_off_further_each_time(
    github: GitHub, script: Script, clock: WallClock
) -> None:
    pauses = []
    for _ in range(3):
        script.then(REPOSITORY, Reply({"message": SECONDARY}, 403))
        error = refused(github)
        pauses.append(error.retry_after)
        clock.offset += (error.retry_after or 0) + 1
    assert pauses == [60, 120, 240]


@pytest.mark.parametrize("kind", ["RATE_LIMIT", "RATE_LIMITED"])
def test_graphql_200_response_can_be_an_exhausted_quota(github: GitHub, script: Script, kind: str) -> None:
    body = {"errors": [{"type": kind, "message": "API rate limit exceeded for installation ID 7."}]}
    script.then(GRAPHQL, Reply(body, headers={**spent(60), "X-RateLimit-Resource": "graphql"}))
    error = refused_write(github)
    assert (error.code, error.maybe_applied) == ("github_rate_limited", False)
    assert error.retry_after == pytest.approx(60, abs=3)


@pytest.mark.parametrize("status", [200, 403])
def test_graphql_200_or_403_response_can_be_a_secondary_limit(github: GitHub, script: Script, status: int) -> None:
    body = {"message": SECONDARY} if status == 403 else {"data": None, "errors": [{"message": SECONDARY}]}
    script.then(GRAPHQL, Reply(body, status, {"Retry-After": "17"}))
    error = refused_write(github)
    assert (error.code, error.retry_after) == ("github_secondary_rate_limit", 17)


def test_secondary_limit_within_a_batch_keeps_the_checks_already_written(github: GitHub, script: Script) -> None:
    data = {"c0": {"checkRun": {"databaseId": 5}}, "c1": None}
    script.then(GRAPHQL, Reply({"data": data, "errors": [{"path": ["c1"], "message": SECONDARY}]}))
    first, second = github.client(7).write_checks([WRITE, WRITE])
    assert first.check_run_id == 5
    assert second.error is not None
    assert (second.error.code, second.error.retry_after) == ("github_secondary_rate_limit", 60)
    assert github.client(7).budget.paused_until is not None


@pytest.mark.parametrize(
    "body",
    [
        b"<html>Unicorn!</html>",
        b"",
        b"[]",
        {"data": None},
        {"data": None, "errors": [{"message": "Something went wrong while executing your query."}]},
        {"data": None, "errors": "many"},
        {"errors": [None, 3]},
    ],
)
def test_unreadable_response_to_a_write_may_have_been_applied(github: GitHub, script: Script, body: Any) -> None:
    script.then(GRAPHQL, Reply(body))
    error = refused_write(github)
    assert (error.code, error.maybe_applied) == ("github_unavailable", True)


@pytest.mark.parametrize("status", [500, 502, 504])
def test_write_with_a_server_error_may_have_been_applied(github: GitHub, script: Script, status: int) -> None:
    script.then(GRAPHQL, Reply(b"oops", status))
    assert refused_write(github).maybe_applied


def test_write_with_a_permission_error_was_not_applied(github: GitHub, script: Script) -> None:
    script.then(GRAPHQL, Reply({"message": "Resource not accessible by integration"}, 403))
    assert not refused_write(github).maybe_applied


@pytest.mark.parametrize(
    "fault",
    [
        {"message": "Field 'x' doesn't exist on type 'Query'", "extensions": {"code": "undefinedField"}},
        {"message": "Something of $i0", "extensions": {"value": None, "problems": []}},
        {"message": "Variable '$i0' got invalid value"},
    ],
)
def test_rejected_document_is_not_retried(github: GitHub, script: Script, fault: dict[str, Any]) -> None:
    script.then(GRAPHQL, Reply({"errors": [fault]}))
    error = refused_write(github)
    assert (error.kind, error.maybe_applied, error.transient) == (ErrorKind.REJECTED, False, False)


@pytest.mark.parametrize("body", [{}, {"id": 9}, {"id": "nine"}, [], None, {"id": 9, "node_id": "R", "owner": None}])
def test_unreadable_repository_is_an_error_of_github(github: GitHub, script: Script, body: Any) -> None:
    script.then(REPOSITORY, Reply(body))
    assert refused(github).code == "github_unavailable"


def test_budget_is_read_from_headers(github: GitHub, script: Script) -> None:
    for remaining in ("4998", "4999"):  # the second answer was overtaken by the first
        headers = {**spent(100), "X-RateLimit-Remaining": remaining, "X-RateLimit-Reset": "2000000000"}
        script.then(REPOSITORY, Reply({"message": "Not Found"}, 404, headers))
        refused(github)
    rest = github.client(7).budget.rest
    assert (rest.limit, rest.remaining, rest.reset_at) == (5000, 4998, 2000000000)
    assert github.client(7).budget.graphql.limit is None


@pytest.mark.parametrize("odd", ["", "-1", "soon", "9" * 40, "1_0"])
def test_malformed_headers_are_ignored(github: GitHub, script: Script, odd: str) -> None:
    headers = {"X-RateLimit-Limit": odd, "X-RateLimit-Remaining": odd, "X-RateLimit-Reset": odd, "Retry-After": odd}
    script.then(REPOSITORY, Reply({"message": SECONDARY}, 403, {**headers, "Date": odd}))
    assert refused(github).retry_after == 60
    assert github.client(7).budget.rest.limit is None


def frames(error: BaseException) -> str:
    """Return what a traceback with variables would print of our own frames."""
    stack = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), capture_locals=True)
    return "".join(str(frame.locals) for frame in stack if "/tests/" not in frame.filename)


def test_errors_contain_no_secret(github: GitHub, script: Script, private_key: str) -> None:
    script.then("POST " + TOKEN_PATH, granted(value="ghs_canary"))
    script.then(REPOSITORY, Reply(by_hand=hang_up))
    error = refused(github)
    shown = repr(error) + str(error) + repr(error.__dict__) + repr(github.settings) + frames(error)
    assert error.__cause__ is error.__context__ is None  # a fault of `requests` would carry the headers
    assert "ghs_canary" not in shown
    assert "hush" not in shown
    assert private_key.splitlines()[1] not in shown
