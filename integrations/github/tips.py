"""Branches of many repositories in one query."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from integrations.github import queries
from integrations.github.calls import Calls
from integrations.github.connections import (
    INSTALLATION_WIDE,
    Connection,
    all_pages,
    no_repository,
    repository_from_graphql,
    target_of,
)
from integrations.github.errors import GitHubError
from integrations.github.responses import parsing
from integrations.github.values import RepositoryTips

_REFS = Connection(queries.TIPS_PAGE, ("refs",))


def branch_tips(calls: Calls, node_ids: Sequence[str], containing: str) -> list[RepositoryTips]:
    """Return the branches of each repository, in the given order; see `InstallationClient.branch_tips`."""
    ids = list(dict.fromkeys(node_ids))
    found = {tips.repository_node_id: tips for tips in _fetch(calls, ids, containing)} if ids else {}
    return [found[node_id] for node_id in node_ids]


def _fetch(calls: Calls, ids: Sequence[str], containing: str) -> Iterator[RepositoryTips]:
    data = calls.query(queries.TIPS, {"ids": ids, "text": containing})
    nodes = data.fields.get("nodes")
    if isinstance(nodes, list) and len(nodes) == len(ids):
        for index, node in enumerate(nodes):
            yield _tips(calls, ids[index], containing, node, data.error_at("nodes", index))
    elif len(ids) > 1:
        for node_id in ids:
            yield from _fetch_one(calls, node_id, containing)
    else:
        yield RepositoryTips(ids[0], None, error=data.error_at("nodes") or no_repository())


def _fetch_one(calls: Calls, node_id: str, containing: str) -> Iterator[RepositoryTips]:
    try:
        yield from _fetch(calls, [node_id], containing)
    except GitHubError as error:
        if error.kind in INSTALLATION_WIDE:
            raise
        yield RepositoryTips(node_id, None, error=error)


def _tips(calls: Calls, node_id: str, containing: str, node: Any, partial: GitHubError | None) -> RepositoryTips:
    tips = RepositoryTips(node_id, None)
    if not isinstance(node, dict) or "databaseId" not in node:
        return replace(tips, error=partial or no_repository())
    variables = {"id": node_id, "text": containing}
    try:
        with parsing():
            tips = replace(tips, repository=repository_from_graphql(node))
            refs = all_pages(calls, _REFS, variables, node.get("refs"), partial)
            named = {str(ref["name"]): target_of(ref) for ref in refs}
            return replace(tips, branches={name: sha for name, sha in named.items() if sha is not None})
    except GitHubError as error:
        if error.kind in INSTALLATION_WIDE:
            raise
        return replace(tips, error=error)
