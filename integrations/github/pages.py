"""What the batched reads of repositories have in common: connections read to their end, and missing repositories."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from integrations.github.calls import Calls
from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.transport import unavailable
from integrations.github.values import RepositoryInfo

WHOLE = frozenset(
    {
        ErrorKind.RATE_LIMIT,
        ErrorKind.SECONDARY_RATE_LIMIT,
        ErrorKind.INSTALLATION_REMOVED,
        ErrorKind.APP_REFUSED,
    }
)
"""What concerns the whole installation, however small a part was being read."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A connection below a repository, and the document that reads its further pages."""

    next_page: str
    below: tuple[str, ...]


def all_pages(
    calls: Calls, listing: Listing, variables: Mapping[str, str], connection: Any, fault: GitHubError | None
) -> list[dict[str, Any]]:
    """Return the nodes of a connection from its first page on; raises `GitHubError` when a single one is missing."""
    nodes: list[dict[str, Any]] = []
    while True:
        if not isinstance(connection, dict) or not all(isinstance(node, dict) for node in connection["nodes"]):
            raise fault or unavailable("sent an incomplete list", maybe_applied=False)
        nodes += connection["nodes"]
        if not connection["pageInfo"]["hasNextPage"]:
            return nodes
        data = calls.query(listing.next_page, {**variables, "after": connection["pageInfo"]["endCursor"]})
        connection, fault = data.fields.get("node"), data.fault_at("node")
        for field in listing.below:
            connection = connection.get(field) if isinstance(connection, dict) else None


def no_repository() -> GitHubError:
    """Return the error for a repository that is not there, or not ours to see."""
    return GitHubError(ErrorKind.NOT_FOUND, "GitHub has no such repository, or shows it not")


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
    """Return the commit that a ref points at, if there is one."""
    found = (ref.get("target") or {}).get("oid") if isinstance(ref, dict) else None
    return found if isinstance(found, str) else None
