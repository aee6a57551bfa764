"""The checks that the graph writes."""

from typing import Any

from tools.fake_github.graph.queries import Args, find_node_of
from tools.fake_github.graph.resolvers import Context, resolver
from tools.fake_github.model import checks
from tools.fake_github.model.records import Repository
from tools.fake_github.model.refusals import forbidden_to_integration

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
