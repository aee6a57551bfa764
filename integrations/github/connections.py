"""Helpers of the batched reads: paginated GraphQL connections, and missing repositories."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from integrations.github.calls import Calls
from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.transport import unavailable
from integrations.github.values import RepositoryInfo

INSTALLATION_WIDE = frozenset(
    {
        ErrorKind.RATE_LIMIT,
        ErrorKind.SECONDARY_RATE_LIMIT,
        ErrorKind.INSTALLATION_REMOVED,
        ErrorKind.APP_REFUSED,
    }
)
"""Errors that concern the whole installation, not only the part that was read."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A GraphQL connection below a repository, and the document that reads its further pages."""

    next_page: str
    below: tuple[str, ...]


def all_pages(
    calls: Calls, source: Connection, variables: Mapping[str, str], connection: Any, error: GitHubError | None
) -> list[dict[str, Any]]:
    """Return all nodes of a connection, given its first page. Raise `GitHubError` if any node is missing."""
    nodes: list[dict[str, Any]] = []
    while True:
        if not isinstance(connection, dict) or not all(isinstance(node, dict) for node in connection["nodes"]):
            raise error or unavailable("sent an incomplete list", maybe_applied=False)
        nodes += connection["nodes"]
        if not connection["pageInfo"]["hasNextPage"]:
            return nodes
        data = calls.query(source.next_page, {**variables, "after": connection["pageInfo"]["endCursor"]})
        connection, error = data.fields.get("node"), data.error_at("node")
        for field in source.below:
            connection = connection.get(field) if isinstance(connection, dict) else None


def no_repository() -> GitHubError:
    """Return the error for a repository that does not exist or is not visible to us."""
    return GitHubError(ErrorKind.NOT_FOUND, "GitHub has no such repository, or does not show it")


def repository_from_graphql(node: Mapping[str, Any]) -> RepositoryInfo:
    """Read a repository object of the GraphQL API."""
    return RepositoryInfo(
        github_id=int(node["databaseId"]),
        node_id=str(node["id"]),
        owner=str(node["owner"]["login"]),
        name=str(node["name"]),
        default_branch=str((node.get("defaultBranchRef") or {}).get("name") or "main"),
        private=bool(node["isPrivate"]),
        archived=bool(node["isArchived"]),
    )


def target_of(ref: Any) -> str | None:
    """Return the SHA that a ref points at, or None."""
    sha = (ref.get("target") or {}).get("oid") if isinstance(ref, dict) else None
    return sha if isinstance(sha, str) else None
