"""Pull requests and merge queues in the graph."""

from typing import Any

from tools.fake_github.graph.queries import Args, commit_of, ref_of, repository_of
from tools.fake_github.graph.resolvers import Context, attributes, resolver
from tools.fake_github.graph.values import CommitOf, Connection, PullCommit, QueueOf, RefOf, connect
from tools.fake_github.model import changes
from tools.fake_github.model.merges import merge_state
from tools.fake_github.model.queue import queue_rule
from tools.fake_github.model.records import PullRequest, QueueEntry, Repository
from tools.fake_github.model.world import Actor

MERGEABLE = {True: "MERGEABLE", False: "CONFLICTING", None: "UNKNOWN"}
ORDERS = {"CREATED_AT": "created_at", "UPDATED_AT": "updated_at", "COMMENTS": "number"}
attributes(
    "PullRequest",
    id="node_id",
    isDraft="draft",
    updatedAt="updated_at",
    headRefName="head_ref",
    headRefOid="head_sha",
    baseRefName="base_ref",
    reviewDecision="review_decision",
)


def _state(pull: PullRequest) -> str:
    return "MERGED" if pull.merged_at else pull.state.upper()


def select_pulls(found: list[PullRequest], args: Args, repository: Repository) -> list[PullRequest]:
    """Apply `states`, `headRefName`, `labels` and `orderBy`."""
    if (states := args.get("states")) is not None:
        found = [pull for pull in found if _state(pull) in states]
    if head := args.get("headRefName"):
        found = [pull for pull in found if pull.head_ref == head]
    if args.get("labels"):
        wanted = {label.id for label in repository.labels if label.name in args["labels"]}
        found = [pull for pull in found if wanted & set(pull.label_ids)]
    order = args.get("orderBy")
    if order:
        key = ORDERS[order["field"]]
        found = sorted(found, key=lambda pull: (getattr(pull, key), pull.number), reverse=order["direction"] == "DESC")
    return found


@resolver("Repository", "pullRequests")
def _pulls(repository: Repository, args: Args, context: Context) -> Connection:
    base = args.get("baseRefName")
    if args.get("states") == ["OPEN"] and base:
        found = list(context.world.open_into.get((repository.id, base), {}).values())
        args = {**args, "states": None}
    else:
        found = [pull for pull in repository.pulls.values() if not base or pull.base_ref == base]
    return connect("pullRequests", select_pulls(found, args, repository), args, lambda pull: pull.number)


def _page(pull: PullRequest, context: Context) -> str:
    return f"/{context.world.full_name(repository_of(context, pull))}/pull/{pull.number}"


resolver("PullRequest", "url")(lambda pull, _args, context: f"{context.github.base_url}{_page(pull, context)}")
resolver("PullRequest", "state")(lambda pull, _args, _context: _state(pull))
resolver("PullRequest", "headRepository")(lambda pull, _args, context: context.world.head_repository(pull))
resolver("PullRequest", "isCrossRepository")(lambda pull, _args, _context: pull.fork_id is not None)
resolver("PullRequest", "author")(lambda pull, _args, context: context.world.accounts.get(pull.author_id))
resolver("PullRequest", "mergeable")(lambda pull, _args, _context: MERGEABLE[pull.mergeable])


@resolver("PullRequest", "baseRefOid")
def _base_tip(pull: PullRequest, _args: Args, context: Context) -> str:
    return repository_of(context, pull).branches.get(pull.base_ref, pull.base_sha)


@resolver("PullRequest", "headRef")
def _head_ref(pull: PullRequest, _args: Args, context: Context) -> RefOf | None:
    found = context.world.head_repository(pull)
    return ref_of(found, pull.head_ref) if found else None


@resolver("PullRequest", "mergeStateStatus")
def _merge_state(pull: PullRequest, _args: Args, context: Context) -> str:
    actor = Actor(context.caller.account)
    return merge_state(context.world, actor, repository_of(context, pull), pull).upper()


@resolver("PullRequest", "autoMergeRequest")
def _auto_merge(pull: PullRequest, _args: Args, _context: Context) -> dict[str, Any] | None:
    auto_merge = pull.auto_merge
    if auto_merge is None:
        return None
    return {"enabledAt": auto_merge.enabled_at, "mergeMethod": auto_merge.merge_method.upper()}


@resolver("PullRequest", "commits")
def _commits(pull: PullRequest, args: Args, context: Context) -> Connection:
    repository = repository_of(context, pull)
    found = [PullCommit(pull, CommitOf(repository, commit)) for commit in changes.commits_of(repository, pull)]
    return connect("commits", found, args, lambda each: each.commit.commit.sha)


resolver("PullRequestCommit", "id")(lambda value, _args, _context: f"PURC_{value.pull.id}x{value.commit.commit.sha}")
resolver("PullRequest", "mergeQueueEntry")(lambda pull, _args, context: context.world.queue_entry(pull))
resolver("PullRequest", "isInMergeQueue")(lambda pull, _args, context: context.world.queue_entry(pull) is not None)


def _queue(value: QueueOf, context: Context) -> list[QueueEntry]:
    return context.world.queues.get((value.repository.id, value.base), [])


resolver("MergeQueue", "id")(lambda value, _args, _context: f"MQ_{value.repository.id:x}x{value.base}")


@resolver("MergeQueue", "entries")
def _entries(value: QueueOf, args: Args, context: Context) -> Connection:
    return connect("entries", _queue(value, context), args, lambda entry: entry.id)


@resolver("MergeQueue", "configuration")
def _configuration(value: QueueOf, _args: Args, context: Context) -> dict[str, Any]:
    rule = queue_rule(context.world, value.repository, value.base) or {}
    return {"mergingStrategy": rule.get("grouping_strategy", "ALLGREEN")}


attributes("MergeQueueEntry", id="node_id")
resolver("MergeQueueEntry", "pullRequest")(
    lambda entry, _args, context: repository_of(context, entry).pulls[entry.number]
)
resolver("MergeQueueEntry", "headCommit")(
    lambda entry, _args, context: commit_of(repository_of(context, entry), entry.head_sha)
)
resolver("MergeQueueEntry", "baseCommit")(
    lambda entry, _args, context: commit_of(repository_of(context, entry), entry.base_sha)
)


@resolver("MergeQueueEntry", "position")
def _position(entry: QueueEntry, _args: Args, context: Context) -> int:
    queue = context.world.queues.get((entry.repository_id, entry.base_ref), [])
    return queue.index(entry) + 1 if entry in queue else 0
