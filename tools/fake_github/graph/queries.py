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
from tools.fake_github.model.roles import level_of
from tools.fake_github.payloads.repositories import identity_json

Args = dict[str, Any]
PERMISSIONS = {"pull": "READ", "triage": "TRIAGE", "push": "WRITE", "maintain": "MAINTAIN", "admin": "ADMIN"}


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


def _account(args: Args, context: Context, kind: str) -> Account:
    found = context.world.logins.get(args["login"].lower())
    if found is None or (kind == "Organization" and found.type != kind):
        raise GraphError("NOT_FOUND", f"Could not resolve to an {kind} with the login of '{args['login']}'.")
    return found


@resolver("Query", "organization")
def _organization(_value: Any, args: Args, context: Context) -> Account:
    return _account(args, context, "Organization")


@resolver("Query", "repositoryOwner")
def _repository_owner(_value: Any, args: Args, context: Context) -> Account:
    return _account(args, context, "RepositoryOwner")


def _account_fields(kind: str) -> None:
    attributes(kind, id="node_id", databaseId="id")
    resolver(kind, "url")(lambda account, _args, context: f"{context.github.base_url}/{account.login}")
    resolver(kind, "resourcePath")(lambda account, _args, _context: f"/{account.login}")


def _visibility(repository: Repository) -> str:
    return "PRIVATE" if repository.private else "PUBLIC"


def _owner_fields(kind: str) -> None:
    resolver(kind, "name")(lambda account, _args, _context: account.login)

    @resolver(kind, "repository")
    def _owned(account: Account, args: Args, context: Context) -> Repository:
        found: Repository = _repository(None, {"owner": account.login, **args}, context)
        return found

    @resolver(kind, "repositories")
    def _all_owned(account: Account, args: Args, context: Context) -> Connection:
        found = [each for each in context.world.owned[account.id].values() if context.caller.sees(each)]
        if args.get("isArchived") is not None:
            found = [each for each in found if each.archived == args["isArchived"]]
        for wanted in filter(None, (args.get("privacy"), args.get("visibility"))):
            found = [each for each in found if _visibility(each) == wanted]
        found = [] if args.get("isFork") else found
        return connect("repositories", found, args, lambda each: each.id)


for _kind in ("User", "Bot", "Organization"):
    _account_fields(_kind)
resolver("Bot", "login")(lambda account, _args, _context: account.login.removesuffix("[bot]"))  # which REST writes
for _kind in ("User", "Organization"):
    _owner_fields(_kind)


attributes("App", id="node_id", databaseId="id")


@resolver("App", "url")
def _app_url(app: App, _args: Args, context: Context) -> str:
    return f"{context.github.base_url}/apps/{app.slug}"


attributes(
    "Repository",
    id="node_id",
    databaseId="id",
    isArchived="archived",
    isPrivate="private",
    createdAt="created_at",
    updatedAt="updated_at",
    pushedAt="pushed_at",
    autoMergeAllowed="allow_auto_merge",
    deleteBranchOnMerge="delete_branch_on_merge",
)
for _flag in ("isDisabled", "isFork", "isLocked"):
    resolver("Repository", _flag)(lambda _value, _args, _context: False)
for _flag in ("hasIssuesEnabled", "hasWikiEnabled", "mergeCommitAllowed", "rebaseMergeAllowed", "squashMergeAllowed"):
    resolver("Repository", _flag)(lambda _value, _args, _context: True)
resolver("Repository", "parent")(lambda _value, _args, _context: None)  # no repository is a fork
resolver("Repository", "viewerDefaultMergeMethod")(lambda _value, _args, _context: "MERGE")
resolver("Repository", "visibility")(lambda value, _args, _context: _visibility(value))
resolver("Repository", "nameWithOwner")(lambda value, _args, context: context.world.full_name(value))
resolver("Repository", "owner")(lambda value, _args, context: context.world.owner(value))
resolver("Repository", "url")(
    lambda value, _args, context: f"{context.github.base_url}/{context.world.full_name(value)}"
)
resolver("Repository", "resourcePath")(lambda value, _args, context: f"/{context.world.full_name(value)}")
resolver("Repository", "defaultBranchRef")(lambda value, _args, _context: ref_of(value, value.default_branch))


@resolver("Repository", "viewerPermission")
def _viewer_permission(repository: Repository, _args: Args, context: Context) -> str | None:
    """Return what a person may do; an App's installation is nobody."""
    caller = context.caller
    level = None if caller.installation else level_of(context.world, caller.account, repository)
    return PERMISSIONS.get(level or "")


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


def _commit_page(value: CommitOf, context: Context) -> str:
    return f"/{context.world.full_name(value.repository)}/commit/{value.commit.sha}"


resolver("Commit", "id")(lambda value, _args, _context: commit_node_id(value.repository.id, value.commit.sha))
resolver("Commit", "oid")(lambda value, _args, _context: value.commit.sha)
resolver("Commit", "abbreviatedOid")(lambda value, _args, _context: value.commit.sha[:7])
resolver("Commit", "message")(lambda value, _args, _context: value.commit.message)
resolver("Commit", "messageHeadline")(lambda value, _args, _context: value.commit.message.partition("\n")[0])
resolver("Commit", "messageBody")(lambda value, _args, _context: value.commit.message.partition("\n")[2].strip())
for _field in ("authoredDate", "committedDate"):
    resolver("Commit", _field)(lambda value, _args, _context: value.commit.date)
resolver("Commit", "resourcePath")(lambda value, _args, context: _commit_page(value, context))
for _field in ("url", "commitUrl"):
    resolver("Commit", _field)(lambda value, _args, context: f"{context.github.base_url}{_commit_page(value, context)}")


@resolver("Commit", "parents")
def _parents(value: CommitOf, args: Args, _context: Context) -> Connection:
    found = [commit for sha in value.commit.parents if (commit := commit_of(value.repository, sha))]
    return connect("parents", found, args, lambda each: each.commit.sha)


@resolver("Commit", "authors")
def _authors(value: CommitOf, args: Args, context: Context) -> Connection:
    account = context.world.accounts.get(value.commit.author_id)
    user = account if account and account.type == "User" else None
    person = {**identity_json(context.github.view, value.commit.author_id), "user": user}
    return connect("authors", [person], args, lambda each: each["email"])
