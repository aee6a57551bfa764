"""Reading back the checks that this App has on known commits."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from integrations.github import queries
from integrations.github.answers import reading
from integrations.github.calls import Calls
from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.graphql import Data
from integrations.github.values import BranchHeads, CheckState
from rules.freezes.batches import batches

_COMMITS_PER_QUERY = 50

_Commit = tuple[str, str]
"""Repository node id and SHA."""
_Found = dict[_Commit, tuple[CheckState, ...] | GitHubError]


def read_back(
    calls: Calls,
    branches: Sequence[BranchHeads],
    app_id: int,
    names: Collection[str] | None,
    between: Callable[[], object],
) -> list[BranchHeads]:
    """Return the branches with the newest check of each name on every head; calls `between` before each query.

    Where a head's checks could not be read, its branch gets the error: unread is not the same as absent.
    """
    commits = list(dict.fromkeys(commit for branch in branches for commit in _commits(branch)))
    found: _Found = {}
    for some in batches(commits, _COMMITS_PER_QUERY):
        between()
        found |= _ask(calls, some, app_id, names)
    return [_filled(branch, found) for branch in branches]


def newest(runs: Sequence[CheckState]) -> tuple[CheckState, ...]:
    """Return the newest run of each name: GitHub numbers them as they are created."""
    latest: dict[str, CheckState] = {}
    for run in sorted(runs, key=lambda run: run.id):
        latest[run.name] = run
    return tuple(latest.values())


def _commits(branch: BranchHeads) -> list[_Commit]:
    shas = [pull.head_sha for pull in branch.pulls] + [entry.head_sha for entry in branch.queue if entry.head_sha]
    return [(branch.repository_node_id, sha) for sha in shas]


def _ask(calls: Calls, commits: Sequence[_Commit], app_id: int, names: Collection[str] | None) -> _Found:
    variables: dict[str, Any] = {"app": app_id}
    for number, (repository, sha) in enumerate(commits):
        variables |= {f"r{number}": repository, f"s{number}": sha}
    data = calls.query(queries.checks(len(commits)), variables)
    return {commit: _read(data, f"c{number}", app_id, names) for number, commit in enumerate(commits)}


def _read(data: Data, alias: str, app_id: int, names: Collection[str] | None) -> tuple[CheckState, ...] | GitHubError:
    try:
        with reading():
            commit = data.fields[alias]["object"]
            suites = commit["checkSuites"]["nodes"] if commit else []
            runs = [_check(run, app_id) for suite in suites for run in suite["checkRuns"]["nodes"]]
    except GitHubError as error:
        return data.fault_at(alias) or error
    fault = data.fault_at(alias, "object")
    if commit is None and fault is not None and fault.kind is not ErrorKind.NOT_FOUND:
        return fault
    return newest([run for run in runs if names is None or run.name in names])


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


def _filled(branch: BranchHeads, found: _Found) -> BranchHeads:
    answers = [found[commit] for commit in _commits(branch)]
    fault = next((answer for answer in answers if isinstance(answer, GitHubError)), None)
    if fault is not None:
        return replace(branch, error=branch.error or fault)
    checks = [answer for answer in answers if not isinstance(answer, GitHubError)]
    on_pulls, on_entries = checks[: len(branch.pulls)], iter(checks[len(branch.pulls) :])
    return replace(
        branch,
        pulls=tuple(replace(pull, checks=runs) for pull, runs in zip(branch.pulls, on_pulls, strict=True)),
        queue=tuple(replace(entry, checks=next(on_entries)) if entry.head_sha else entry for entry in branch.queue),
    )
