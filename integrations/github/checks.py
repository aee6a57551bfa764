"""Check runs: each is created as a new completed run, because GitHub does not allow a completed one to change."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from integrations.github import queries
from integrations.github.calls import Calls, path
from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.graphql import Data
from integrations.github.transport import unavailable
from integrations.github.values import CheckResult, CheckState, CheckWrite, check_from_rest

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MAX_SUMMARY = 65535
_MAX_TITLE = 255


def write_checks(calls: Calls, writes: Sequence[CheckWrite]) -> list[CheckResult]:
    """Create the runs with one mutation; see `InstallationClient.write_checks`."""
    valid = [write for write in writes if _SHA.fullmatch(write.head_sha)]
    results = iter(_send(calls, valid) if valid else ())
    return [next(results) if _SHA.fullmatch(write.head_sha) else _invalid_sha() for write in writes]


def _send(calls: Calls, writes: Sequence[CheckWrite]) -> list[CheckResult]:
    variables = {f"i{number}": _input(write) for number, write in enumerate(writes)}
    data = calls.mutate(queries.create_checks(len(writes)), variables)
    return [_result(data, f"c{number}") for number in range(len(writes))]


def check_runs(calls: Calls, owner: str, name: str, sha: str, check_name: str) -> list[CheckState]:
    """Return all runs with that name on a commit, of any app, newest first."""
    route = path("repos", owner, name, "commits", sha, "check-runs")
    runs: list[CheckState] = []
    for response in calls.get_pages(route, check_name=check_name, filter="all"):
        listed = response.payload.get("check_runs") if isinstance(response.payload, dict) else None
        runs += [check_from_rest(run) for run in listed or ()]
    return sorted(runs, key=lambda run: run.id, reverse=True)


def _input(write: CheckWrite) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "repositoryId": write.repository_node_id,
        "name": write.name,
        "headSha": write.head_sha,
        "status": "COMPLETED",
        "conclusion": write.conclusion.upper(),
        "externalId": write.external_id,
        "output": _output(write),
    }
    if write.details_url is not None:
        fields["detailsUrl"] = write.details_url
    if write.actions:
        fields["actions"] = _actions(write)
    return fields


def _actions(write: CheckWrite) -> list[dict[str, str]]:
    return [asdict(action) for action in write.actions]


def _output(write: CheckWrite) -> Mapping[str, str]:
    return {"title": write.title[:_MAX_TITLE], "summary": write.summary[:_MAX_SUMMARY]}


def _result(data: Data, alias: str) -> CheckResult:
    payload = data.fields.get(alias)
    run = payload.get("checkRun") if isinstance(payload, dict) else None
    number = run.get("databaseId") if isinstance(run, dict) else None
    if isinstance(number, int):
        return CheckResult(number, None)
    return CheckResult(None, data.error_at(alias) or _unknown_outcome())


def _unknown_outcome() -> GitHubError:
    """Return the error for `{"checkRun": null}` without any error, which GitHub has sent before."""
    return unavailable("created a check without returning its id", maybe_applied=True)


def _invalid_sha() -> CheckResult:
    """Return the error for an invalid SHA; it is not sent, because GitHub would reject the whole mutation for it."""
    return CheckResult(None, GitHubError(ErrorKind.REJECTED, "the commit SHA is invalid; nothing was sent"))
