"""Rules of many branches in one query, and details of the rulesets behind them.

What GitHub does not show is None, never an empty list. If GraphQL does not return the rules of a branch, because it
does not exist yet or the response is incomplete, they are read by REST, whose list of active rules does not need an
existing branch. Neither includes rulesets that are disabled or in evaluate mode.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from integrations.github import rule_queries
from integrations.github.calls import Calls, path
from integrations.github.connections import (
    INSTALLATION_WIDE,
    BranchQuery,
    read_branches,
    repository_from_graphql,
)
from integrations.github.errors import GitHubError
from integrations.github.graphql import Data
from integrations.github.responses import parsing
from integrations.github.rulesets import repository_rulesets
from integrations.github.transport import unavailable
from integrations.github.values import BranchRef, RepositoryInfo
from rules.batches import batches
from rules.rulesets.enforcement import ActiveRule, BypassActor, ClassicProtection, Level, RequiredCheck, Ruleset

RULESETS_PER_QUERY = 100
_LEVELS: Mapping[str, Level] = {
    "Repository": "repository",
    "Organization": "organization",
    "Enterprise": "enterprise",
}
_STATUS_CHECKS = "required_status_checks"


@dataclass(frozen=True, slots=True)
class ListedRuleset:
    """A ruleset of a repository, active or not, with its branch patterns."""

    node_id: str
    ruleset: Ruleset
    include: tuple[str, ...]
    exclude: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RulesetDetails:
    """Details that only the ruleset itself has; None if not shown."""

    bypass_actors: tuple[BypassActor, ...] | None
    checks: tuple[RequiredCheck, ...] | None


@dataclass(frozen=True, slots=True)
class BranchRules:
    """The rules of one branch, or the error if they could not be read."""

    repository_node_id: str
    name: str
    repository: RepositoryInfo | None
    """None if the repository does not exist or is not visible."""
    exists: bool = False
    rules: tuple[ActiveRule, ...] | None = None
    """The active rules; None if not shown."""
    node_ids: Mapping[int, str] = field(default_factory=dict)
    """Node ids of the rulesets by database id."""
    listed: tuple[ListedRuleset, ...] = ()
    classic: ClassicProtection | None = None
    classic_seen: bool = False
    queue_seen: bool | None = None
    queue_strategy: str | None = None
    error: GitHubError | None = None
    """The reason why `rules` is None."""


def read_rules(calls: Calls, wanted: Sequence[BranchRef]) -> list[BranchRules]:
    """Return the rules of each branch, in the given order; see `InstallationClient.rules`."""
    found = read_branches(calls, calls, wanted, BranchQuery(rule_queries.rules, _branch, _missing))
    return [_complete_by_rest(calls, rules) for rules in found]


def _missing(ref: BranchRef, error: GitHubError) -> BranchRules:
    return BranchRules(ref.repository_node_id, ref.name, None, error=error)


def _branch(ref: BranchRef, node: Mapping[str, Any], data: Data, place: tuple[str, int]) -> BranchRules:
    found = BranchRules(ref.repository_node_id, ref.name, None)
    try:
        with parsing():
            return _parse(found, node, data, place)
    except GitHubError as error:
        return replace(found, error=error)


def _parse(found: BranchRules, node: Mapping[str, Any], data: Data, place: tuple[str, int]) -> BranchRules:
    listed = tuple(_listed(entry) for entry in (node.get("rulesets") or {}).get("nodes") or () if entry)
    named = {each.ruleset.id: each.node_id for each in listed if each.ruleset.id is not None}
    ref, queue = node.get("ref"), node.get("mergeQueue")
    connection = ref.get("rules") if ref else None
    for rule in connection["nodes"] if connection else ():
        shown = rule and rule.get("repositoryRuleset")
        if shown and shown.get("databaseId") is not None:
            named[int(shown["databaseId"])] = str(shown["id"])
    classic = ref.get("branchProtectionRule") if ref else None
    return replace(
        found,
        repository=repository_from_graphql(node),
        exists=ref is not None,
        rules=_rules(connection),
        node_ids=named,
        listed=listed,
        classic=_classic(classic) if classic else None,
        classic_seen=ref is not None and data.error_at(*place, "ref", "branchProtectionRule") is None,
        queue_seen=True if queue else False if data.error_at(*place, "mergeQueue") else None,
        queue_strategy=((queue or {}).get("configuration") or {}).get("mergingStrategy"),
    )


def _rules(connection: Mapping[str, Any] | None) -> tuple[ActiveRule, ...] | None:
    """Return the rules of a connection; None if a rule or its parameters are missing."""
    if not connection or connection["pageInfo"]["hasNextPage"]:
        return None
    rules = []
    for node in connection["nodes"]:
        parameters = node and node.get("parameters")
        if not node or (node["type"] == "REQUIRED_STATUS_CHECKS" and not parameters):
            return None
        shown = node.get("repositoryRuleset")
        rules.append(
            ActiveRule(
                str(node["type"]).lower(),
                _ruleset(shown) if shown else None,
                _checks(parameters or {}),
                (parameters or {}).get("groupingStrategy"),
            )
        )
    return tuple(rules)


def _checks(parameters: Mapping[str, Any]) -> tuple[RequiredCheck, ...]:
    return tuple(
        RequiredCheck(str(check["context"]), app_of(check.get("integrationId")))
        for check in parameters.get("requiredStatusChecks") or ()
    )


def app_of(number: Any) -> int | None:
    """Return the id of the App that must write a check; None for any (GitHub uses null or a non-positive number)."""
    return int(number) if number is not None and int(number) > 0 else None


def _ruleset(node: Mapping[str, Any]) -> Ruleset:
    number = node.get("databaseId")
    level = _LEVELS.get((node.get("source") or {}).get("__typename") or "")
    return Ruleset(
        int(number) if number is not None else None,
        str(node["name"]),
        node["enforcement"].lower(),
        level,
        updated_at=node.get("updatedAt"),
    )


def _listed(node: Mapping[str, Any]) -> ListedRuleset:
    names = (node.get("conditions") or {}).get("refName") or {}
    include, exclude = (tuple(map(str, names.get(side) or ())) for side in ("include", "exclude"))
    return ListedRuleset(str(node["id"]), _ruleset(node), include, exclude)


def _classic(node: Mapping[str, Any]) -> ClassicProtection:
    required = (node["requiredStatusChecks"] or ()) if node["requiresStatusChecks"] else ()
    checks = tuple(
        RequiredCheck(str(check["context"]), app_of((check.get("app") or {}).get("databaseId"))) for check in required
    )
    return ClassicProtection(checks, bool(node["isAdminEnforced"]), bool(node["lockBranch"]))


def _complete_by_rest(calls: Calls, found: BranchRules) -> BranchRules:
    """Read by REST the rules that GraphQL did not return."""
    if found.rules is not None or found.repository is None:
        return found
    try:
        with parsing():
            return replace(found, rules=tuple(_rest_rules(calls, found, found.repository)))
    except GitHubError as error:
        if error.kind in INSTALLATION_WIDE:
            raise
        return replace(found, error=error)


def _rest_rules(calls: Calls, found: BranchRules, repository: RepositoryInfo) -> Iterable[ActiveRule]:
    known = {each.ruleset.id: each.ruleset for each in found.listed}
    for rule in calls.get_lists(path("repos", repository.owner, repository.name, "rules", "branches", found.name)):
        number, kind, parameters = rule.get("ruleset_id"), str(rule["type"]), rule.get("parameters") or {}
        ruleset = known.get(number)
        if ruleset is None and number is not None and kind == _STATUS_CHECKS:
            ruleset = known[number] = _rest_ruleset(calls, repository, rule)
        yield ActiveRule(kind, ruleset, _rest_checks(parameters), parameters.get("grouping_strategy"))


def _rest_checks(parameters: Mapping[str, Any]) -> tuple[RequiredCheck, ...]:
    return tuple(
        RequiredCheck(str(check["context"]), app_of(check.get("integration_id")))
        for check in parameters.get(_STATUS_CHECKS) or ()
    )


def _rest_ruleset(calls: Calls, repository: RepositoryInfo, rule: Mapping[str, Any]) -> Ruleset:
    """Return the ruleset of a rule; GitHub shows bypass actors only to those who may edit it."""
    level = _LEVELS.get(str(rule.get("ruleset_source_type")))
    hidden = Ruleset(int(rule["ruleset_id"]), str(rule.get("ruleset_source") or ""), "active", level)
    try:
        shown = repository_rulesets(calls, repository.owner, repository.name).get(int(rule["ruleset_id"]))
    except GitHubError as error:
        if error.kind in INSTALLATION_WIDE or error.transient:
            raise
        return hidden
    given = shown.get("bypass_actors")
    actors = None if given is None else tuple(map(_rest_actor, given))
    return replace(hidden, name=str(shown["name"]), bypass_actors=actors)


def _rest_actor(actor: Mapping[str, Any]) -> BypassActor:
    return BypassActor(str(actor["actor_type"]), actor.get("actor_id"), None, str(actor.get("bypass_mode") or "always"))


def read_rulesets(calls: Calls, node_ids: Sequence[str]) -> dict[str, RulesetDetails]:
    """Return the details of rulesets by node id; see `InstallationClient.ruleset_details`."""
    found: dict[str, RulesetDetails] = {}
    ids = list(dict.fromkeys(node_ids))
    for chunk in batches(ids, RULESETS_PER_QUERY):
        nodes = calls.query(rule_queries.RULESETS, {"ids": chunk}).fields.get("nodes")
        if not isinstance(nodes, list) or len(nodes) != len(chunk):
            raise unavailable("sent an incomplete list", maybe_applied=False)
        with parsing():
            found |= {node_id: _details(node or {}) for node_id, node in zip(chunk, nodes, strict=True)}
    return found


def _details(node: Mapping[str, Any]) -> RulesetDetails:
    actors, rules = (node.get("bypassActors") or {}).get("nodes"), (node.get("rules") or {}).get("nodes")
    checks: tuple[RequiredCheck, ...] | None = None
    if isinstance(rules, list) and all(rule and rule.get("parameters") for rule in rules):
        checks = tuple(check for rule in rules for check in _checks(rule["parameters"]))
    return RulesetDetails(None if actors is None else tuple(map(_actor, actors)), checks)


def _actor(node: Mapping[str, Any] | None) -> BypassActor:
    """Return a bypass actor; one of a type that GraphQL does not model, such as a user, gets the type `Unknown`."""
    shown: Mapping[str, Any] = node or {}
    mode, actor = str(shown.get("bypassMode") or "always").lower(), shown.get("actor") or {}
    if actor:
        kind = "Integration" if actor["__typename"] == "App" else str(actor["__typename"])
        return BypassActor(kind, actor.get("databaseId"), actor.get("name"), mode)
    if shown.get("repositoryRoleDatabaseId") is not None:
        name = shown.get("repositoryRoleName")
        return BypassActor("RepositoryRole", int(shown["repositoryRoleDatabaseId"]), name, mode)
    flags = {"organizationAdmin": "OrganizationAdmin", "deployKey": "DeployKey", "enterpriseOwner": "EnterpriseOwner"}
    kind = next((kind for flag, kind in flags.items() if shown.get(flag)), "Unknown")
    return BypassActor(kind, None, None, mode)
