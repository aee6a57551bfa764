"""Repositories, references, commits and the root of queries."""

from typing import Any

from tools.fake_github.graph.resolvers import Context, GraphError, attributes, resolver
from tools.fake_github.graph.values import CommitOf, Connection, QueueOf, RefOf, connect
from tools.fake_github.model.identifiers import commit_node_id, ref_node_id
from tools.fake_github.model.queue import queue_rule
from tools.fake_github.model.records import (
    Account,
    App,
    CheckRun,
    CheckSuite,
    PullRequest,
    QueueEntry,
    Repository,
    Ruleset,
)

Args = dict[str, Any]


def repository_of(context: Context, value: Any) -> Repository:
    """Return the repository of any record that has one."""
    return context.world.repositories[value.repository_id]


def commit_of(repository: Repository, sha: str | None) -> CommitOf | None:
    """Return a commit as the graph shows it."""
    commit = repository.commits.get(sha or "")
    return CommitOf(repository, commit) if commit else None


def _visible(context: Context, value: Any) -> bool:
    if isinstance(value, Ruleset):
        return rules_visible(context, value)
    repository = value if isinstance(value, Repository) else getattr(value, "repository", None)
    if repository is None and isinstance(value, PullRequest | CheckRun | CheckSuite | QueueEntry):
        repository = context.world.repositories.get(value.repository_id)
        if repository is None:
            return False
    return repository is None or context.caller.sees(repository)


def rules_visible(context: Context, ruleset: Ruleset) -> bool:
    """Return whether the caller sees what a ruleset belongs to."""
    if ruleset.source_type == "Repository":
        return context.caller.sees(context.world.repositories[ruleset.source_id])
    installation = context.caller.installation
    return installation is None or installation.account_id == ruleset.source_id


def find_node(context: Context, identifier: str) -> Any:
    """Return what a node id names, if the caller may see it; else raise GitHub's NOT_FOUND."""
    found = context.world.find_node(identifier)
    if isinstance(found, tuple):
        found = commit_of(*found)
    if found is None or not _visible(context, found):
        raise GraphError("NOT_FOUND", f"Could not resolve to a node with the global id of '{identifier}'")
    return found


def find_node_of(context: Context, identifier: str, kind: type | tuple[type, ...], name: str) -> Any:
    """Return what a node id names, if it is of a kind and the caller may see it; else raise GitHub's NOT_FOUND."""
    found = find_node(context, identifier)
    if not isinstance(found, kind):
        raise GraphError("NOT_FOUND", f"Could not resolve to {name} node with the global id of '{identifier}'.")
    return found


@resolver("Query", "id")
def _query_id(_value: Any, _args: Args, _context: Context) -> str:
    return "Q_kwDOAA"


@resolver("Query", "node")
def _node(_value: Any, args: Args, context: Context) -> Any:
    return find_node(context, args["id"])


@resolver("Query", "nodes")
def _nodes(_value: Any, args: Args, context: Context) -> list[Any]:
    found: list[Any] = []
    if len(args["ids"]) > 100:
        raise GraphError(
            "ARGUMENT_LIMIT", f"You may not provide more than 100 node ids; you provided {len(args['ids'])}."
        )
    for identifier in args["ids"]:
        try:
            found.append(find_node(context, identifier))
        except GraphError as error:
            found.append(error)  # an error of this item alone, which stays null
    return found


@resolver("Query", "rateLimit")
def _rate_limit(_value: Any, _args: Args, context: Context) -> dict[str, Any]:
    return context.github.limits.graph_budget(context.caller, context.cost, context.node_count)


@resolver("Query", "viewer")
def _viewer(_value: Any, _args: Args, context: Context) -> Account:
    return context.caller.account


@resolver("Query", "repository")
def _repository(_value: Any, args: Args, context: Context) -> Repository:
    name = f"{args['owner']}/{args['name']}"
    found = context.world.find_repository(name)
    if found is None and args.get("followRenames", True):
        found = context.world.repositories.get(context.world.moved.get(name.lower(), 0))
    if found is None or not context.caller.sees(found):
        raise GraphError("NOT_FOUND", f"Could not resolve to a Repository with the name '{name}'.")
    return found


for _kind in ("User", "Bot", "Organization"):
    attributes(_kind, id="node_id", databaseId="id")
resolver("Bot", "login")(lambda account, _args, _context: account.login.removesuffix("[bot]"))  # which REST writes
attributes("App", id="node_id", databaseId="id")


@resolver("App", "url")
def _app_url(app: App, _args: Args, context: Context) -> str:
    return f"{context.github.base_url}/apps/{app.slug}"


attributes("Repository", id="node_id", databaseId="id", isArchived="archived", isPrivate="private")
resolver("Repository", "nameWithOwner")(lambda value, _args, context: context.world.full_name(value))
resolver("Repository", "owner")(lambda value, _args, context: context.world.owner(value))
resolver("Repository", "defaultBranchRef")(lambda value, _args, _context: ref_of(value, value.default_branch))


def ref_of(repository: Repository, branch: str) -> RefOf | None:
    """Return a branch as the graph shows it."""
    return RefOf(repository, branch) if branch in repository.branches else None


@resolver("Repository", "ref")
def _ref(repository: Repository, args: Args, _context: Context) -> RefOf | None:
    return ref_of(repository, args["qualifiedName"].removeprefix("refs/").removeprefix("heads/"))


@resolver("Repository", "refs")
def _refs(repository: Repository, args: Args, _context: Context) -> Connection:
    prefix = args["refPrefix"]
    if not prefix.startswith("refs/heads/"):
        return connect("refs", [], args, str)
    start, query = prefix.removeprefix("refs/heads/"), (args.get("query") or "").lower()
    names = [name for name in sorted(repository.branches) if name.startswith(start) and query in name.lower()]
    direction = (args.get("orderBy") or {}).get("direction") or args.get("direction")
    if direction == "DESC":
        names.reverse()
    return connect("refs", [RefOf(repository, name) for name in names], args, lambda ref: ref.branch)


@resolver("Repository", "object")
def _object(repository: Repository, args: Args, _context: Context) -> CommitOf | None:
    expression = (args.get("expression") or "").removeprefix("refs/heads/")
    return commit_of(repository, args.get("oid") or repository.branches.get(expression, expression))


@resolver("Repository", "mergeQueue")
def _merge_queue(repository: Repository, args: Args, context: Context) -> QueueOf | None:
    context.caller.require("merge_queues:read")
    base = args.get("branch") or repository.default_branch
    return QueueOf(repository, base) if queue_rule(context.world, repository, base) is not None else None


resolver("Ref", "id")(lambda ref, _args, _context: ref_node_id(ref.repository.id, ref.branch))
resolver("Ref", "name")(lambda ref, _args, _context: ref.branch)
resolver("Ref", "prefix")(lambda _ref, _args, _context: "refs/heads/")
resolver("Ref", "target")(
    lambda ref, _args, _context: commit_of(ref.repository, ref.repository.branches.get(ref.branch))
)


resolver("Commit", "id")(lambda value, _args, _context: commit_node_id(value.repository.id, value.commit.sha))
resolver("Commit", "oid")(lambda value, _args, _context: value.commit.sha)


@resolver("Commit", "parents")
def _parents(value: CommitOf, args: Args, _context: Context) -> Connection:
    found = [commit for sha in value.commit.parents if (commit := commit_of(value.repository, sha))]
    return connect("parents", found, args, lambda each: each.commit.sha)
