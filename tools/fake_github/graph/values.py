"""Values that the graph shows and that are no records: connections, references, commits, queues."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tools.fake_github.graph.resolvers import TYPE_OF, GraphError, resolver
from tools.fake_github.model.records import (
    Account,
    App,
    CheckRun,
    CheckSuite,
    Commit,
    PullRequest,
    QueueEntry,
    Repository,
)


class CommitOf(NamedTuple):
    """A commit in its repository."""

    repository: Repository
    commit: Commit


class RefOf(NamedTuple):
    """A branch of a repository."""

    repository: Repository
    branch: str


class QueueOf(NamedTuple):
    """The merge queue of a branch."""

    repository: Repository
    base: str


class PullCommit(NamedTuple):
    """A commit of a pull request."""

    pull: PullRequest
    commit: CommitOf


@dataclass(slots=True)
class Connection:
    """One page of a list, with the fields of `pageInfo`."""

    page: Sequence[Any]
    cursors: Callable[[Any], str]
    total: int
    has_next: bool
    has_previous: bool


TYPE_OF.update(
    {
        Repository: lambda _: "Repository",
        PullRequest: lambda _: "PullRequest",
        CheckRun: lambda _: "CheckRun",
        CheckSuite: lambda _: "CheckSuite",
        QueueEntry: lambda _: "MergeQueueEntry",
        App: lambda _: "App",
        Account: lambda account: account.type,
        CommitOf: lambda _: "Commit",
        RefOf: lambda _: "Ref",
        QueueOf: lambda _: "MergeQueue",
    }
)


def _encode(key: Any) -> str:
    return base64.b64encode(f"cursor:v2:{key}".encode()).decode()


def _place(items: Sequence[Any], key: Callable[[Any], Any], cursor: str) -> int:
    for place, item in enumerate(items):
        if _encode(key(item)) == cursor:
            return place
    raise GraphError("INVALID_CURSOR_ARGUMENTS", f"`{cursor}` does not appear to be a valid cursor.")


def check_bounds(name: str, args: dict[str, Any]) -> int:
    """Return how many records a page may have; 1 to 100 by `first` or `last`, one of which must be given."""
    first, last = args.get("first"), args.get("last")
    if first is None and last is None:
        raise GraphError(
            "MISSING_PAGINATION_BOUNDARIES",
            f"You must provide a `first` or `last` value to properly paginate the `{name}` connection.",
        )
    side = "last" if first is None else "first"
    count = int(args[side])
    if count > 100:
        message = f"Requesting {count} records on the `{name}` connection exceeds the `{side}` limit of 100 records."
        raise GraphError("EXCESSIVE_PAGINATION", message)
    if count < 0:
        raise GraphError("ARGUMENT_LIMIT", f"`{side}` on the `{name}` connection cannot be less than zero.")
    return count


def connect(name: str, items: Sequence[Any], args: dict[str, Any], key: Callable[[Any], Any]) -> Connection:
    """Cut a page out of a list by `first`/`after` or `last`/`before`."""
    count = check_bounds(name, args)
    start = _place(items, key, args["after"]) + 1 if args.get("after") else 0
    end = _place(items, key, args["before"]) if args.get("before") else len(items)
    if args.get("first") is not None:
        end = min(end, start + count)
    else:
        start = max(start, end - count)
    page = items[start:end]
    return Connection(page, lambda item: _encode(key(item)), len(items), end < len(items), start > 0)


def _page_info(connection: Connection, _args: dict[str, Any], _context: Any) -> dict[str, Any]:
    page = connection.page
    return {
        "startCursor": connection.cursors(page[0]) if page else None,
        "endCursor": connection.cursors(page[-1]) if page else None,
        "hasNextPage": connection.has_next,
        "hasPreviousPage": connection.has_previous,
    }


for _kind in [
    "CheckRun",
    "CheckSuite",
    "Commit",
    "Label",
    "MergeQueueEntry",
    "PullRequest",
    "PullRequestChangedFile",
    "PullRequestCommit",
    "PullRequestReview",
    "PullRequestTimelineItems",
    "Ref",
    "RepositoryRule",
    "RepositoryRuleset",
    "RepositoryRulesetBypassActor",
]:
    _owner = f"{_kind}Connection"
    resolver(_owner, "nodes")(lambda value, _args, _context: value.page)
    resolver(_owner, "pageInfo")(_page_info)
    resolver(_owner, "totalCount")(lambda value, _args, _context: value.total)
