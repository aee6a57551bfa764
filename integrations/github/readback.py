"""Read-back of the checks that this App has written on known commits."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from integrations.github import queries
from integrations.github.calls import Calls
from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.graphql import Data
from integrations.github.responses import parsing
from integrations.github.values import BranchHeads, CheckState
from rules.batches import batches

_COMMITS_PER_QUERY = 50

_Commit = tuple[str, str]
"""Repository node id and SHA."""
_Found = dict[_Commit, tuple[CheckState, ...] | GitHubError]


def read_back(calls: Calls, branches: Sequence[BranchHeads], app_id: int) -> list[BranchHeads]:
    """Return the branches with the newest check of each name on every head.

    If the checks of a head cannot be read, its branch gets the error: unknown is not the same as absent.
    """
    commits = list(dict.fromkeys(commit for branch in branches for commit in _commits(branch)))
    found: _Found = {}
    for batch in batches(commits, _COMMITS_PER_QUERY):
        found |= _fetch(calls, batch, app_id)
    return [_with_checks(branch, found) for branch in branches]


def newest(runs: Sequence[CheckState]) -> tuple[CheckState, ...]:
    """Return the newest run of each name; ids increase with creation."""
    latest: dict[str, CheckState] = {}
    for run in sorted(runs, key=lambda run: run.id):
        latest[run.name] = run
    return tuple(latest.values())


def _commits(branch: BranchHeads) -> list[_Commit]:
    shas = [pull.head_sha for pull in branch.pulls] + [entry.head_sha for entry in branch.queue if entry.head_sha]
    return [(branch.repository_node_id, sha) for sha in shas]


def _fetch(calls: Calls, commits: Sequence[_Commit], app_id: int) -> _Found:
    variables: dict[str, Any] = {"app": app_id}
    for number, (repository, sha) in enumerate(commits):
        variables |= {f"r{number}": repository, f"s{number}": sha}
    data = calls.query(queries.checks(len(commits)), variables)
    return {commit: _checks_of(data, f"c{number}", app_id) for number, commit in enumerate(commits)}


def _checks_of(data: Data, alias: str, app_id: int) -> tuple[CheckState, ...] | GitHubError:
    try:
        with parsing():
            commit = data.fields[alias]["object"]
            suites = commit["checkSuites"]["nodes"] if commit else []
            runs = [_check(run, app_id) for suite in suites for run in suite["checkRuns"]["nodes"]]
    except GitHubError as error:
        return data.error_at(alias) or error
    partial = data.error_at(alias, "object")
    if commit is None and partial is not None and partial.kind is not ErrorKind.NOT_FOUND:
        return partial
    return newest(runs)


def _check(node: Mapping[str, Any], app_id: int) -> CheckState:
    conclusion = node["conclusion"]
    return CheckState(
        id=int(node["databaseId"]),
        name=str(node["name"]),
        status=str(node["status"]).lower(),
        conclusion=conclusion.lower() if conclusion else None,
        external_id=node["externalId"] or None,
        app_id=app_id,
    )


def _with_checks(branch: BranchHeads, found: _Found) -> BranchHeads:
    responses = [found[commit] for commit in _commits(branch)]
    error = next((response for response in responses if isinstance(response, GitHubError)), None)
    if error is not None:
        return replace(branch, error=branch.error or error)
    checks = [response for response in responses if not isinstance(response, GitHubError)]
    on_pulls, on_entries = checks[: len(branch.pulls)], iter(checks[len(branch.pulls) :])
    return replace(
        branch,
        pulls=tuple(replace(pull, checks=runs) for pull, runs in zip(branch.pulls, on_pulls, strict=True)),
        queue=tuple(replace(entry, checks=next(on_entries)) if entry.head_sha else entry for entry in branch.queue),
    )
