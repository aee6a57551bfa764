"""Rules, rulesets and classic protection in the graph; what a caller may not see is FORBIDDEN, as in REST."""

from typing import Any, NamedTuple

from tools.fake_github.graph.queries import Args
from tools.fake_github.graph.resolvers import TYPE_OF, Context, GraphError, attributes, resolver
from tools.fake_github.graph.values import Connection, RefOf, connect
from tools.fake_github.model.classic import find_protection
from tools.fake_github.model.records import Account, App, BranchProtection, Repository, Ruleset
from tools.fake_github.model.rulesets import rules_for_branch, rulesets_over

FORBIDDEN = "Resource not accessible by integration"
SHOWN_MODES = {"always": "ALWAYS", "pull_request": "PULL_REQUEST"}


class RuleOf(NamedTuple):
    """A rule of a ruleset."""

    ruleset: Ruleset
    rule: dict[str, Any]


class StatusChecksOf(NamedTuple):
    """The parameters of a rule that requires checks."""

    given: dict[str, Any]


class QueueParametersOf(NamedTuple):
    """The parameters of a rule that puts a merge queue before a branch."""

    given: dict[str, Any]


class BypassOf(NamedTuple):
    """A person who can bypass a ruleset."""

    ruleset: Ruleset
    entry: dict[str, Any]


class TeamOf(NamedTuple):
    """A team; this simulation knows no more of it than its number."""

    number: int


TYPE_OF.update(
    {
        Ruleset: lambda _: "RepositoryRuleset",
        RuleOf: lambda _: "RepositoryRule",
        StatusChecksOf: lambda _: "RequiredStatusChecksParameters",
        QueueParametersOf: lambda _: "MergeQueueParameters",
        BypassOf: lambda _: "RepositoryRulesetBypassActor",
        BranchProtection: lambda _: "BranchProtectionRule",
        TeamOf: lambda _: "Team",
    }
)


def _rules(found: list[RuleOf], args: Args) -> Connection:
    return connect("rules", found, args, lambda each: f"{each.ruleset.id} {each.rule['type']}")


@resolver("Ref", "rules")
def _rules_of_ref(ref: RefOf, args: Args, context: Context) -> Connection:
    applied = rules_for_branch(context.world, ref.repository, ref.branch)
    return _rules([RuleOf(ruleset, rule) for ruleset, rule in applied], args)


@resolver("Ref", "branchProtectionRule")
def _classic(ref: RefOf, _args: Args, context: Context) -> BranchProtection | None:
    context.caller.require("administration:read")
    return find_protection(context.world, ref.repository, ref.branch)


@resolver("Repository", "rulesets")
def _rulesets(repository: Repository, args: Args, context: Context) -> Connection:
    targets = args.get("targets")
    found = [
        ruleset
        for ruleset in rulesets_over(context.world, repository)
        if args["includeParents"] or ruleset.source_type == "Repository"
        if targets is None or ruleset.target.upper() in targets
    ]
    return connect("rulesets", found, args, lambda ruleset: ruleset.id)


attributes("RepositoryRuleset", id="node_id", databaseId="id", updatedAt="updated_at")
resolver("RepositoryRuleset", "enforcement")(lambda ruleset, _args, _context: ruleset.enforcement.upper())
resolver("RepositoryRuleset", "target")(lambda ruleset, _args, _context: ruleset.target.upper())


@resolver("RepositoryRuleset", "source")
def _source(ruleset: Ruleset, _args: Args, context: Context) -> Repository | Account:
    if ruleset.source_type == "Repository":
        return context.world.repositories[ruleset.source_id]
    return context.world.accounts[ruleset.source_id]


@resolver("RepositoryRuleset", "conditions")
def _conditions(ruleset: Ruleset, _args: Args, _context: Context) -> dict[str, Any]:
    given = ruleset.conditions
    by_name, by_property = _sides(given.get("repository_name")), _sides(given.get("repository_property"))
    return {
        "refName": _sides(given.get("ref_name")),
        "repositoryId": given.get("repository_id"),
        "repositoryName": by_name and by_name | {"protected": given["repository_name"].get("protected")},
        "repositoryProperty": by_property
        and {side: [_property(each) for each in listed] for side, listed in by_property.items()},
    }


@resolver("RepositoryIdConditionTarget", "repositoryIds")
def _node_ids(condition: dict[str, Any], _args: Args, context: Context) -> list[str]:
    found = context.world.repositories
    return [found[number].node_id for number in condition.get("repository_ids", ()) if number in found]


def _sides(condition: dict[str, Any] | None) -> dict[str, list[Any]] | None:
    """Return what a condition includes and excludes; None without one."""
    return None if condition is None else {side: condition.get(side, []) for side in ("include", "exclude")}


def _property(wanted: dict[str, Any]) -> dict[str, Any]:
    return {"name": wanted["name"], "propertyValues": wanted["property_values"], "source": wanted.get("source")}


@resolver("RepositoryRuleset", "rules")
def _rules_of_ruleset(ruleset: Ruleset, args: Args, _context: Context) -> Connection:
    wanted = args.get("type")
    found = [RuleOf(ruleset, rule) for rule in ruleset.rules if wanted in {None, rule["type"].upper()}]
    return _rules(found, args)


@resolver("RepositoryRuleset", "bypassActors")
def _bypass_actors(ruleset: Ruleset, args: Args, context: Context) -> Connection:
    if not context.caller.sees_bypass_of(ruleset):
        raise GraphError("FORBIDDEN", FORBIDDEN)
    found = [BypassOf(ruleset, entry) for entry in ruleset.bypass_actors]
    return connect("bypassActors", found, args, lambda each: ruleset.bypass_actors.index(each.entry))


resolver("RepositoryRule", "id")(lambda each, _args, _context: f"RR_{each.ruleset.id:x}x{each.rule['type']}")
resolver("RepositoryRule", "type")(lambda each, _args, _context: each.rule["type"].upper())
resolver("RepositoryRule", "repositoryRuleset")(lambda each, _args, _context: each.ruleset)


@resolver("RepositoryRule", "parameters")
def _parameters(each: RuleOf, _args: Args, _context: Context) -> StatusChecksOf | QueueParametersOf | None:
    given = each.rule.get("parameters", {})
    if each.rule["type"] == "required_status_checks":
        return StatusChecksOf(given)
    return QueueParametersOf(given) if each.rule["type"] == "merge_queue" else None


@resolver("RequiredStatusChecksParameters", "requiredStatusChecks")
def _required(value: StatusChecksOf, _args: Args, _context: Context) -> list[dict[str, Any]]:
    checks = value.given["required_status_checks"]
    return [{"context": check["context"], "integrationId": check.get("integration_id")} for check in checks]


def _given(kind: str, name: str, given: str, default: Any = None) -> None:
    resolver(kind, name)(lambda value, _args, _context: value.given.get(given, default))


_given("RequiredStatusChecksParameters", "doNotEnforceOnCreate", "do_not_enforce_on_create", default=False)
_given(
    "RequiredStatusChecksParameters",
    "strictRequiredStatusChecksPolicy",
    "strict_required_status_checks_policy",
    default=False,
)
_given("MergeQueueParameters", "groupingStrategy", "grouping_strategy")


@resolver("RepositoryRulesetBypassActor", "actor")
def _actor(each: BypassOf, _args: Args, context: Context) -> App | TeamOf | None:
    number = each.entry["actor_id"]
    if each.entry["actor_type"] == "Integration":
        return context.world.apps.get(number)
    return TeamOf(number) if each.entry["actor_type"] == "Team" else None


def _flag(name: str, kind: str) -> None:
    resolver("RepositoryRulesetBypassActor", name)(lambda each, _args, _context: each.entry["actor_type"] == kind)


for _name, _kind in {
    "organizationAdmin": "OrganizationAdmin",
    "deployKey": "DeployKey",
    "enterpriseOwner": "EnterpriseOwner",
}.items():
    _flag(_name, _kind)


def _role(each: BypassOf) -> int | None:
    return each.entry["actor_id"] if each.entry["actor_type"] == "RepositoryRole" else None


resolver("RepositoryRulesetBypassActor", "id")(
    lambda each, _args, _context: f"RBA_{each.ruleset.id:x}x{each.entry['actor_type']}{each.entry['actor_id']}"
)
resolver("RepositoryRulesetBypassActor", "bypassMode")(
    lambda each, _args, _context: SHOWN_MODES.get(each.entry["bypass_mode"])
)
resolver("RepositoryRulesetBypassActor", "repositoryRoleDatabaseId")(lambda each, _args, _context: _role(each))
resolver("RepositoryRulesetBypassActor", "repositoryRoleName")(lambda _each, _args, _context: None)

resolver("Team", "id")(lambda team, _args, _context: f"T_{team.number:x}")
resolver("Team", "databaseId")(lambda team, _args, _context: team.number)
resolver("Team", "name")(lambda team, _args, _context: f"team-{team.number}")

attributes(
    "BranchProtectionRule",
    id="node_id",
    isAdminEnforced="enforce_admins",
    lockBranch="locked",
    requiresStatusChecks="requires_checks",
)


@resolver("BranchProtectionRule", "requiredStatusChecks")
def _classic_checks(value: BranchProtection, _args: Args, context: Context) -> list[dict[str, Any]]:
    apps = context.world.apps
    return [{"context": check["context"], "app": apps.get(check["app_id"])} for check in value.checks]
