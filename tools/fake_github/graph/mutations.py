"""What the graph can change."""

from typing import Any

from tools.fake_github.graph.queries import Args, find_node_of, repository_of
from tools.fake_github.graph.resolvers import Context, GraphError, resolver
from tools.fake_github.model import checks, pulls, queue
from tools.fake_github.model.protection import merge_violations
from tools.fake_github.model.records import AutoMerge, PullRequest, Repository
from tools.fake_github.model.refusals import forbidden_to_integration
from tools.fake_github.model.roles import refuse_changes

RUN_FIELDS = {
    "name": "name",
    "headSha": "head_sha",
    "detailsUrl": "details_url",
    "externalId": "external_id",
    "startedAt": "started_at",
    "completedAt": "completed_at",
    "output": "output",
    "actions": "actions",
}


def _run_fields(given: Args) -> dict[str, Any]:
    """Turn the input's fields into those of the REST API."""
    fields = {name: given[key] for key, name in RUN_FIELDS.items() if given.get(key) is not None}
    for name in ("status", "conclusion"):
        if given.get(name) is not None:
            fields[name] = given[name].lower()
    return fields


def _writer(context: Context) -> int:
    """Return the App that writes checks; no one else may."""
    context.caller.require("checks:write")
    app_id = context.caller.actor.app_id
    if app_id is None:
        raise forbidden_to_integration()
    return app_id


@resolver("Mutation", "createCheckRun")
def _create(_value: Any, args: Args, context: Context) -> dict[str, Any]:
    given = args["input"]
    app_id = _writer(context)
    repository = find_node_of(context, given["repositoryId"], Repository, "Repository")
    answer = {"checkRun": None, "clientMutationId": given.get("clientMutationId")}
    fault = context.github.faults.hit("null_check_run", "graphql createCheckRun")
    if fault is None or fault.after:
        run = checks.create_check_run(context.world, context.caller.actor, app_id, repository, _run_fields(given))
        answer["checkRun"] = None if fault else run
    return answer


def _pull(context: Context, identifier: str) -> tuple[Repository, PullRequest]:
    context.caller.require("pull_requests:write")
    pull = find_node_of(context, identifier, PullRequest, "PullRequest")
    return repository_of(context, pull), pull


def _expect_head(pull: PullRequest, given: Args) -> None:
    if given.get("expectedHeadOid") not in {None, pull.head_sha}:
        raise GraphError("UNPROCESSABLE", "Head sha was modified. Review and try again.")


@resolver("Mutation", "enqueuePullRequest")
def _enqueue(_value: Any, args: Args, context: Context) -> dict[str, Any]:
    given = args["input"]
    repository, pull = _pull(context, given["pullRequestId"])
    _expect_head(pull, given)
    entry = queue.enqueue(context.world, context.caller.actor, repository, pull, jump=bool(given.get("jump")))
    return {"mergeQueueEntry": entry, "clientMutationId": given.get("clientMutationId")}


@resolver("Mutation", "dequeuePullRequest")
def _dequeue(_value: Any, args: Args, context: Context) -> dict[str, Any]:
    given = args["input"]
    repository, pull = _pull(context, given["id"])
    entry = queue.dequeue(context.world, context.caller.actor, repository, pull)
    return {"mergeQueueEntry": entry, "clientMutationId": given.get("clientMutationId")}


@resolver("Mutation", "enablePullRequestAutoMerge")
def _enable(_value: Any, args: Args, context: Context) -> dict[str, Any]:
    given = args["input"]
    repository, pull = _pull(context, given["pullRequestId"])
    _expect_head(pull, given)
    refuse_changes(context.world, context.caller.actor, repository)
    if not repository.allow_auto_merge:
        raise GraphError("UNPROCESSABLE", "Pull request Auto merge is not allowed for this repository")
    actor = context.caller.actor
    blocked = merge_violations(context.world, actor, repository, pull.base_ref, pull.head_sha, pull.review_decision)
    if pull.state != "open" or (not blocked and not pull.draft):
        raise GraphError("UNPROCESSABLE", "Pull request Pull request is in clean status")
    auto_merge = AutoMerge(
        enabled_at=context.world.now(),
        enabled_by_id=actor.account.id,
        merge_method=(given.get("mergeMethod") or "MERGE").lower(),
        commit_title=given.get("commitHeadline") or "",
        commit_message=given.get("commitBody") or "",
    )
    pulls.set_auto_merge(context.world, actor, repository, pull, auto_merge)
    return {"clientMutationId": given.get("clientMutationId")}


@resolver("Mutation", "disablePullRequestAutoMerge")
def _disable(_value: Any, args: Args, context: Context) -> dict[str, Any]:
    repository, pull = _pull(context, args["input"]["pullRequestId"])
    pulls.set_auto_merge(context.world, context.caller.actor, repository, pull, None)
    return {"clientMutationId": args["input"].get("clientMutationId")}


def _draft(name: str, *, draft: bool) -> None:
    @resolver("Mutation", name)
    def change(_value: Any, args: Args, context: Context) -> dict[str, Any]:
        repository, pull = _pull(context, args["input"]["pullRequestId"])
        pulls.set_draft(context.world, context.caller.actor, repository, pull, draft=draft)
        return {"clientMutationId": args["input"].get("clientMutationId")}


_draft("convertPullRequestToDraft", draft=True)
_draft("markPullRequestReadyForReview", draft=False)
