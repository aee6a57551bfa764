"""Heads that may be merged: open pull requests and merge-queue entries of many branches in one query."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from integrations.github import queries
from integrations.github.calls import Calls
from integrations.github.connections import (
    INSTALLATION_WIDE,
    BranchQuery,
    Connection,
    all_pages,
    read_branches,
    repository_from_graphql,
    target_of,
)
from integrations.github.errors import GitHubError
from integrations.github.graphql import Data
from integrations.github.readback import read_back
from integrations.github.responses import parsing
from integrations.github.values import BranchHeads, BranchRef, PullHead, QueueEntry

_PULLS = Connection(queries.PULLS_PAGE, ("pullRequests",))
_ENTRIES = Connection(queries.ENTRIES_PAGE, ("mergeQueue", "entries"))


def open_heads(
    calls: Calls,
    wanted: Sequence[BranchRef],
    read_back_app_id: int | None,
    between: Callable[[], object],
) -> list[BranchHeads]:
    """Return the heads of each branch, in the given order; see `InstallationClient.open_heads`."""
    further = calls.with_hook(lambda **_: between())
    query = BranchQuery(queries.heads, partial(_branch, further), _missing)
    results = read_branches(calls, further, wanted, query)
    if read_back_app_id is None:
        return results
    return read_back(further, results, read_back_app_id)


def _missing(ref: BranchRef, error: GitHubError) -> BranchHeads:
    return BranchHeads(ref.repository_node_id, ref.name, None, error=error)


def _branch(calls: Calls, ref: BranchRef, node: Mapping[str, Any], data: Data, place: tuple[str, int]) -> BranchHeads:
    try:
        with parsing():
            repository = repository_from_graphql(node)
    except GitHubError as error:
        return _missing(ref, error)
    heads = BranchHeads(ref.repository_node_id, ref.name, repository, sha=target_of(node.get("ref")))
    heads = _with_pulls(calls, heads, node.get("pullRequests"), data.error_at(*place, "pullRequests"))
    queue, queue_error = node.get("mergeQueue"), data.error_at(*place, "mergeQueue")
    if queue is None:
        return heads if queue_error is None else replace(heads, queue_error=queue_error)
    return _with_queue(calls, heads, queue.get("entries") if isinstance(queue, dict) else None, queue_error)


def _with_pulls(calls: Calls, heads: BranchHeads, first: Any, partial: GitHubError | None) -> BranchHeads:
    try:
        with parsing():
            nodes = all_pages(calls, _PULLS, _variables(heads), first, partial)
            return replace(heads, pulls=tuple(_pull(node) for node in nodes))
    except GitHubError as error:
        if error.kind in INSTALLATION_WIDE:
            raise
        return replace(heads, error=error)


def _with_queue(calls: Calls, heads: BranchHeads, first: Any, partial: GitHubError | None) -> BranchHeads:
    try:
        with parsing():
            nodes = all_pages(calls, _ENTRIES, _variables(heads), first, partial)
            return replace(heads, queue=tuple(sorted(map(_entry, nodes), key=lambda entry: entry.position)))
    except GitHubError as error:
        if error.kind in INSTALLATION_WIDE:
            raise
        return replace(heads, queue_error=error)


def _variables(heads: BranchHeads) -> Mapping[str, str]:
    return {"id": heads.repository_node_id, "branch": heads.name}


def _pull(node: Mapping[str, Any]) -> PullHead:
    decision = node.get("reviewDecision")
    return PullHead(
        number=int(node["number"]),
        node_id=str(node["id"]),
        title=str(node["title"]).replace("\x00", ""),  # free text, and PostgreSQL cannot store NUL
        url=str(node["url"]),
        author=(node.get("author") or {}).get("login"),
        head_sha=str(node["headRefOid"]),
        draft=bool(node["isDraft"]),
        auto_merge=node.get("autoMergeRequest") is not None,
        review_decision=decision.lower() if isinstance(decision, str) else None,
        in_queue=bool(node["isInMergeQueue"]),
        updated_at=datetime.fromisoformat(node["updatedAt"]),
    )


def _entry(node: Mapping[str, Any]) -> QueueEntry:
    return QueueEntry(
        position=int(node["position"]),
        pull_number=(node.get("pullRequest") or {}).get("number"),
        head_sha=target_of({"target": node.get("headCommit")}),
    )
