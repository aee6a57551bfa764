"""What the batched reads share: groups of branches in one query, and paginated GraphQL connections."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from integrations.github.calls import Calls
from integrations.github.errors import INACTIVE_INSTALLATION, ErrorKind, GitHubError
from integrations.github.graphql import Data
from integrations.github.transport import unavailable
from integrations.github.values import BranchRef, RepositoryInfo

T = TypeVar("T")

INSTALLATION_WIDE = frozenset(
    {
        ErrorKind.RATE_LIMIT,
        ErrorKind.SECONDARY_RATE_LIMIT,
        ErrorKind.APP_REFUSED,
        *INACTIVE_INSTALLATION,
    }
)
"""Errors that concern the whole installation, not only the part that was read."""


@dataclass(frozen=True, slots=True)
class BranchQuery(Generic[T]):
    """A query for many branches, and how its answer is read."""

    document: Callable[[int], str]
    """Return the document for so many groups of branches with the same name (`queries`)."""
    read: Callable[[BranchRef, Mapping[str, Any], Data, tuple[str, int]], T]
    """Read the repository object of a branch, at its path in the data."""
    missing: Callable[[BranchRef, GitHubError], T]
    """Return what stands for a branch that could not be read."""


def read_branches(calls: Calls, further: Calls, wanted: Sequence[BranchRef], query: BranchQuery[T]) -> list[T]:
    """Return what is read of each branch, in the given order: by one query, and by `further` ones what it lacks.

    The branches of a group that is null as a whole are read again one by one.
    """
    groups: dict[str, dict[str, None]] = {}
    for ref in wanted:
        groups.setdefault(ref.name, {})[ref.repository_node_id] = None
    found = dict(_read_groups(calls, further, [(name, tuple(ids)) for name, ids in groups.items()], query))
    return [found[ref] for ref in wanted]


def _read_groups(
    calls: Calls, further: Calls, groups: Sequence[tuple[str, tuple[str, ...]]], query: BranchQuery[T]
) -> Iterator[tuple[BranchRef, T]]:
    """Read groups: each is the name of its branches, and the node ids of their repositories."""
    if not groups:
        return
    variables: dict[str, Any] = {}
    for number, (name, ids) in enumerate(groups):
        variables |= {f"i{number}": ids, f"b{number}": name, f"q{number}": f"refs/heads/{name}"}
    data = calls.query(query.document(len(groups)), variables)
    for number, (name, ids) in enumerate(groups):
        nodes = data.fields.get(f"g{number}")
        refs = [BranchRef(node_id, name) for node_id in ids]
        if isinstance(nodes, list) and len(nodes) == len(ids):
            for index, (ref, node) in enumerate(zip(refs, nodes, strict=True)):
                place = (f"g{number}", index)
                if isinstance(node, dict) and "databaseId" in node:
                    yield ref, query.read(ref, node, data, place)
                else:
                    yield ref, query.missing(ref, data.error_at(*place) or no_repository())
        elif len(refs) > 1:
            for ref in refs:
                yield ref, _read_alone(further, ref, query)
        else:
            yield refs[0], query.missing(refs[0], data.error_at(f"g{number}") or no_repository())


def _read_alone(calls: Calls, ref: BranchRef, query: BranchQuery[T]) -> T:
    try:
        [(_, found)] = _read_groups(calls, calls, [(ref.name, (ref.repository_node_id,))], query)
    except GitHubError as error:
        if error.kind in INSTALLATION_WIDE:
            raise
        return query.missing(ref, error)
    return found


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
