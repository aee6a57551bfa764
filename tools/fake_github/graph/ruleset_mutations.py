"""Rulesets created and changed by the graph: inputs become the JSON of REST, and the model does the same as there."""

import re
from typing import Any

from tools.fake_github.graph.queries import Args, find_node, find_node_of
from tools.fake_github.graph.resolvers import Context, GraphError, resolver
from tools.fake_github.model.records import Account, App, Repository, Ruleset
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.roles import has_level, is_owner
from tools.fake_github.model.rulesets import create_ruleset, update_ruleset

TEAM_PREFIX = "T_"
ACTOR_FLAGS = {"organizationAdmin": "OrganizationAdmin", "deployKey": "DeployKey", "enterpriseOwner": "EnterpriseOwner"}


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _json(value: Any) -> Any:
    """Return an input in the spelling of REST; what is null is left out."""
    if isinstance(value, list):
        return [_json(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {_snake(name): _json(each) for name, each in value.items() if each is not None}


def _rule(given: Args) -> dict[str, Any]:
    kind = given["type"].lower()
    parameters = _json(given.get("parameters") or {}).get(kind)
    return {"type": kind} if parameters is None else {"type": kind, "parameters": parameters}


def _conditions(context: Context, given: Args) -> dict[str, Any]:
    found: dict[str, Any] = _json(given)
    if "repository_id" in found:
        identifiers = found["repository_id"]["repository_ids"]
        repositories = [find_node_of(context, each, Repository, "Repository") for each in identifiers]
        found["repository_id"] = {"repository_ids": [repository.id for repository in repositories]}
    return found


def _bypass_actor(context: Context, given: Args) -> dict[str, Any]:
    mode, identifier = given["bypassMode"].lower(), given.get("actorId")
    flag = next((kind for name, kind in ACTOR_FLAGS.items() if given.get(name)), None)
    if flag is not None:
        return {"actor_type": flag, "actor_id": None, "bypass_mode": mode}
    if given.get("repositoryRoleDatabaseId") is not None:
        return {"actor_type": "RepositoryRole", "actor_id": given["repositoryRoleDatabaseId"], "bypass_mode": mode}
    if identifier is None:
        raise GraphError("UNPROCESSABLE", "A bypass actor must be given.")
    if identifier.startswith(TEAM_PREFIX):
        return {"actor_type": "Team", "actor_id": _team(identifier), "bypass_mode": mode}
    app = find_node_of(context, identifier, App, "App")
    return {"actor_type": "Integration", "actor_id": app.id, "bypass_mode": mode}


def _team(identifier: str) -> int:
    """Return the number of a team, of which this simulation has no node."""
    try:
        return int(identifier.removeprefix(TEAM_PREFIX), 16)
    except ValueError as error:
        raise GraphError("NOT_FOUND", f"Could not resolve to a node with the global id of '{identifier}'") from error


def _body(context: Context, given: Args) -> dict[str, Any]:
    """Return the given parts of a ruleset as REST's JSON."""
    body = {"name": given["name"]} if given.get("name") is not None else {}
    body |= {name: given[name].lower() for name in ("enforcement", "target") if given.get(name) is not None}
    if given.get("conditions") is not None:
        body["conditions"] = _conditions(context, given["conditions"])
    if given.get("rules") is not None:
        body["rules"] = [_rule(each) for each in given["rules"]]
    if given.get("bypassActors") is not None:
        body["bypass_actors"] = [_bypass_actor(context, each) for each in given["bypassActors"]]
    return body


def _require_administration(context: Context, source: Repository | Account) -> None:
    """Refuse who may not change the rulesets of a repository or an organisation."""
    caller = context.caller
    if isinstance(source, Account):
        caller.require("organization_administration:write")
        if caller.installation is None and not is_owner(context.world, caller.account, source):
            raise Refusal(404, "Not Found")
        return
    caller.require("administration:write")
    if caller.installation is None and not has_level(context.world, caller.actor, source, "admin"):
        raise Refusal(403, "Must have admin rights to Repository.")


@resolver("Mutation", "createRepositoryRuleset")
def _create(_value: Any, args: Args, context: Context) -> dict[str, Any]:
    given = args["input"]
    source = find_node(context, given["sourceId"])
    if not isinstance(source, Repository | Account) or (isinstance(source, Account) and source.type != "Organization"):
        raise GraphError("NOT_FOUND", f"Could not resolve to a node with the global id of '{given['sourceId']}'")
    _require_administration(context, source)
    kind = "Repository" if isinstance(source, Repository) else "Organization"
    made = create_ruleset(context.world, context.caller.actor, kind, source.id, _body(context, given))
    return {"ruleset": made, "clientMutationId": given.get("clientMutationId")}


@resolver("Mutation", "updateRepositoryRuleset")
def _update(_value: Any, args: Args, context: Context) -> dict[str, Any]:
    given, world = args["input"], context.world
    ruleset = find_node_of(context, given["repositoryRulesetId"], Ruleset, "RepositoryRuleset")
    own = ruleset.source_type == "Repository"
    _require_administration(context, (world.repositories if own else world.accounts)[ruleset.source_id])
    update_ruleset(world, context.caller.actor, ruleset, _body(context, given))
    return {"ruleset": ruleset, "clientMutationId": given.get("clientMutationId")}
