"""Rulesets: validation, and which of them apply to a branch."""

from dataclasses import replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from tools.fake_github.model.identifiers import node_id
from tools.fake_github.model.records import Repository, Ruleset
from tools.fake_github.model.refusals import Refusal, invalid_request
from tools.fake_github.model.world import Actor, Event, World

ENFORCEMENTS = ("active", "evaluate", "disabled")
TARGETS = ("branch", "tag", "push", "repository")
RULE_TYPES = {
    "branch_name_pattern",
    "code_quality",
    "code_scanning",
    "commit_author_email_pattern",
    "commit_message_pattern",
    "committer_email_pattern",
    "copilot_code_review",
    "creation",
    "deletion",
    "file_extension_restriction",
    "file_path_restriction",
    "max_file_path_length",
    "max_file_size",
    "merge_queue",
    "non_fast_forward",
    "pull_request",
    "required_deployments",
    "required_linear_history",
    "required_signatures",
    "required_status_checks",
    "tag_name_pattern",
    "update",
    "workflows",
}
BYPASS_TYPES = {"Integration", "OrganizationAdmin", "RepositoryRole", "Team", "DeployKey", "User"}
BYPASS_MODES = {"always", "pull_request", "exempt"}
QUEUE_PARAMETERS = {
    "check_response_timeout_minutes",
    "grouping_strategy",
    "max_entries_to_build",
    "max_entries_to_merge",
    "merge_method",
    "min_entries_to_merge",
    "min_entries_to_merge_wait_minutes",
}

MAX_DELAY = timedelta(minutes=1)
MAX_RULESETS = 75
"""Of a repository, and of an organisation; GitHub documents the number, not the words of its refusal."""

Applied = tuple[Ruleset, dict[str, Any]]


def matches_pattern(pattern: str, branch: str, default_branch: str) -> bool:
    """Return whether one `ref_name` pattern names the branch; `*` stays within a path segment, `**` does not."""
    if pattern == "~ALL":
        return True
    if pattern == "~DEFAULT_BRANCH":
        return branch == default_branch
    wanted, actual = pattern.split("/"), f"refs/heads/{branch}".split("/")
    return _segments_match(wanted, actual)


def _segments_match(wanted: list[str], actual: list[str]) -> bool:
    """Match as Ruby's File.fnmatch with FNM_PATHNAME: segment by segment; `**` matches any number of them."""
    if not wanted:
        return not actual
    if wanted[0] == "**" and len(wanted) > 1:
        return any(_segments_match(wanted[1:], actual[skip:]) for skip in range(len(actual) + 1))
    return bool(actual) and fnmatchcase(actual[0], wanted[0]) and _segments_match(wanted[1:], actual[1:])


def _included(condition: dict[str, Any], matches: Any) -> bool:
    included = any(matches(pattern) for pattern in condition.get("include", []))
    return included and not any(matches(pattern) for pattern in condition.get("exclude", []))


def covers_repository(ruleset: Ruleset, repository: Repository) -> bool:
    """Return whether the repository conditions of a ruleset include the repository."""
    if ruleset.source_type == "Repository":
        return ruleset.source_id == repository.id
    if (by_id := ruleset.conditions.get("repository_id")) is not None:
        return repository.id in by_id.get("repository_ids", [])
    by_name = ruleset.conditions.get("repository_name")
    return by_name is None or _included(
        by_name, lambda pattern: pattern == "~ALL" or fnmatchcase(repository.name.lower(), pattern.lower())
    )


def is_over(ruleset: Ruleset, repository: Repository) -> bool:
    """Return whether a ruleset is one of the repository, or of its owner."""
    own = ruleset.source_type == "Repository"
    return ruleset.source_id == (repository.id if own else repository.owner_id)


def covers_branch(ruleset: Ruleset, branch: str, default_branch: str) -> bool:
    """Return whether the `ref_name` condition of a ruleset includes the branch."""
    condition = ruleset.conditions.get("ref_name")
    return condition is None or _included(condition, lambda pattern: matches_pattern(pattern, branch, default_branch))


def rulesets_over(world: World, repository: Repository) -> list[Ruleset]:
    """List the rulesets of a repository and those of its owner that include it."""
    own = world.rules_of["Repository", repository.id].values()
    above = world.rules_of["Organization", repository.owner_id].values()
    return [ruleset for ruleset in (*own, *above) if covers_repository(ruleset, repository)]


def rules_for_branch(world: World, repository: Repository, branch: str) -> list[Applied]:
    """List the active rules from every level that apply to a branch, which need not exist."""
    if world.rules_cached_at != world.rules_version:
        world.rules_cache.clear()
        world.rules_cached_at = world.rules_version
    key = (repository.id, branch)
    found = world.rules_cache.get(key)
    if found is None:
        found = world.rules_cache[key] = active_rules(rulesets_over(world, repository), repository, branch)
    return found


def active_rules(rulesets: list[Ruleset], repository: Repository, branch: str) -> list[Applied]:
    """List the rules of those rulesets that are active and include a branch."""
    return [
        (ruleset, rule)
        for ruleset in rulesets
        if ruleset.enforcement == "active" and ruleset.target == "branch"
        if covers_branch(ruleset, branch, repository.default_branch)
        for rule in ruleset.rules
    ]


def _check_status_checks(rule: dict[str, Any]) -> None:
    parameters = rule.get("parameters")
    if not isinstance(parameters, dict):
        raise invalid_request("Invalid rule 'required_status_checks': parameters are required")
    checks = parameters.get("required_status_checks")
    if not isinstance(checks, list) or not all(isinstance(check, dict) and check.get("context") for check in checks):
        raise invalid_request(
            "Invalid rule 'required_status_checks': `required_status_checks` must be a list of contexts"
        )
    if not isinstance(parameters.get("strict_required_status_checks_policy"), bool):
        raise invalid_request(
            "Invalid rule 'required_status_checks': `strict_required_status_checks_policy` must be a boolean"
        )


def _check_merge_queue(rule: dict[str, Any]) -> None:
    missing = QUEUE_PARAMETERS - set(rule.get("parameters") or {})
    if missing:
        raise invalid_request(f"Invalid rule 'merge_queue': missing parameters {', '.join(sorted(missing))}")
    if rule["parameters"]["grouping_strategy"] not in {"ALLGREEN", "HEADGREEN"}:
        raise invalid_request("Invalid rule 'merge_queue': unknown grouping strategy")


def _check_rules(rules: Any, source_type: str) -> None:
    if not isinstance(rules, list):
        raise invalid_request("For 'properties/rules', not an array.")
    for rule in rules:
        kind = rule.get("type") if isinstance(rule, dict) else None
        if kind not in RULE_TYPES:
            raise invalid_request(f"Invalid property /rules: `{kind}` is not a possible value.")
        if kind == "merge_queue" and source_type == "Organization":
            raise Refusal(
                422, "Validation Failed", ["Invalid rule 'merge_queue': not allowed at the organization level"]
            )
        if kind == "required_status_checks":
            _check_status_checks(rule)
        if kind == "merge_queue":
            _check_merge_queue(rule)


def _check_conditions(conditions: Any, source_type: str) -> None:
    if not isinstance(conditions, dict):
        raise invalid_request("For 'properties/conditions', not an object.")
    names = conditions.get("ref_name")
    if names is not None and not all(isinstance(names.get(side, []), list) for side in ("include", "exclude")):
        raise invalid_request("For 'ref_name', include and exclude must be arrays.")
    for pattern in [*(names or {}).get("include", []), *(names or {}).get("exclude", [])]:
        if not str(pattern).startswith(("~ALL", "~DEFAULT_BRANCH", "refs/")):
            raise Refusal(422, "Validation Failed", [f"Invalid target patterns: '{pattern}'"])
    by_repository = {"repository_name", "repository_id", "repository_property"} & set(conditions)
    if source_type == "Organization" and len(by_repository) != 1:
        raise Refusal(422, "Validation Failed", ["Conditions must include exactly one repository condition"])


def _check_bypass(actors: Any) -> None:
    for actor in actors:
        if not isinstance(actor, dict) or actor.get("actor_type") not in BYPASS_TYPES:
            raise invalid_request("Invalid property /bypass_actors: unknown actor type.")
        if actor.get("bypass_mode", "always") not in BYPASS_MODES:
            raise invalid_request("Invalid property /bypass_actors: unknown bypass mode.")


def validate(body: dict[str, Any], source_type: str) -> None:
    """Refuse a ruleset's JSON as GitHub does."""
    if body.get("enforcement") not in ENFORCEMENTS:
        raise invalid_request(f"Invalid property /enforcement: `{body.get('enforcement')}` is not a possible value.")
    if not isinstance(body.get("name"), str) or not body["name"]:
        raise invalid_request('"name" wasn\'t supplied.')
    if body.get("target", "branch") not in TARGETS:
        raise invalid_request("Invalid property /target: not a possible value.")
    _check_rules(body.get("rules", []), source_type)
    _check_conditions(
        body.get("conditions", {"repository_name": {}} if source_type == "Organization" else {}), source_type
    )
    _check_bypass(body.get("bypass_actors") or [])


def _apply(ruleset: Ruleset, body: dict[str, Any]) -> None:
    ruleset.name = body["name"]
    ruleset.enforcement = body["enforcement"]
    ruleset.target = body.get("target", ruleset.target)
    for name in ("conditions", "rules"):
        if name in body:
            setattr(ruleset, name, body[name])
    if "bypass_actors" in body:
        ruleset.bypass_actors = [
            {"bypass_mode": "always", "actor_id": None} | actor for actor in body["bypass_actors"] or []
        ]


def create_ruleset(world: World, actor: Actor, source_type: str, source_id: int, body: dict[str, Any]) -> Ruleset:
    """Create a ruleset of a repository or organisation."""
    validate(body, source_type)
    others = world.rules_of[source_type, source_id].values()
    if any(other.name == body["name"] for other in others):
        raise Refusal(422, "Validation Failed", ["Name must be unique"])
    if len(others) >= MAX_RULESETS:
        raise Refusal(422, "Validation Failed", [f"There can be at most {MAX_RULESETS} rulesets"])
    number, now = world.next_id(), world.now()
    ruleset = Ruleset(number, node_id("RRS", number), source_type, source_id, "", "active", now, now)
    _apply(ruleset, body)
    _remember(world, ruleset.id, None)
    world.index_ruleset(ruleset)
    _announce(world, actor, ruleset, "created")
    return ruleset


def update_ruleset(world: World, actor: Actor, ruleset: Ruleset, body: dict[str, Any]) -> Ruleset:
    """Replace the given parts of a ruleset."""
    merged = {"name": ruleset.name, "enforcement": ruleset.enforcement, "conditions": ruleset.conditions} | body
    validate(merged, ruleset.source_type)
    _remember(world, ruleset.id, replace(ruleset))
    _apply(ruleset, merged)
    ruleset.updated_at = world.now()
    world.rules_version += 1
    _announce(world, actor, ruleset, "edited")
    return ruleset


def delete_ruleset(world: World, actor: Actor, ruleset: Ruleset) -> None:
    """Remove a ruleset."""
    _remember(world, ruleset.id, replace(ruleset))
    del world.rulesets[ruleset.id]
    del world.nodes[ruleset.node_id]
    del world.rules_of[ruleset.source_type, ruleset.source_id][ruleset.id]
    world.rules_version += 1
    _announce(world, actor, ruleset, "deleted")


def _remember(world: World, number: int, former: Ruleset | None) -> None:
    """Keep what a ruleset was before a change, as long as any repository could still enforce it."""
    now = world.clock()
    recent = [change for change in world.ruleset_changes if change[0] > now - MAX_DELAY]
    world.ruleset_changes = [*recent, (now, number, former)]


def _announce(world: World, actor: Actor, ruleset: Ruleset, action: str) -> None:
    repository = world.repositories.get(ruleset.source_id) if ruleset.source_type == "Repository" else None
    world.emit(Event("repository_ruleset", action, actor.account, repository, {"ruleset": ruleset}))
