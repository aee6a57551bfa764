"""Rulesets of up to 20 repositories, read with one query and written with one mutation.

Bodies have the shape of REST's JSON. Translated are rules of three types, and conditions on names of refs. What else
people put into a ruleset makes its body incomplete: only REST can write it back.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from integrations.github import rule_queries
from integrations.github.calls import Calls
from integrations.github.errors import ErrorKind, GitHubError
from integrations.github.graphql import Data
from integrations.github.responses import parsing
from integrations.github.rules import app_of
from integrations.github.transport import unavailable
from rules.batches import batches
from rules.rulesets.rulesets import RULE_TYPE as STATUS_CHECKS

RULESETS_PER_REQUEST = 20
_TRANSLATED = frozenset({"creation", "deletion", STATUS_CHECKS})


@dataclass(frozen=True, slots=True)
class RulesetBody:
    """A ruleset as REST's JSON, without what GitHub adds to it."""

    node_id: str
    body: dict[str, Any]
    complete: bool
    """False if it has more than `body` says; then only REST can write it back."""


@dataclass(frozen=True, slots=True)
class CreatedRuleset:
    """The ids of a new ruleset."""

    node_id: str
    ruleset_id: int
    """The id by which REST names it."""


def read_ruleset_bodies(calls: Calls, node_ids: Sequence[str]) -> list[RulesetBody | GitHubError]:
    """Return each ruleset; see `InstallationClient.read_ruleset_bodies`."""
    found: dict[str, RulesetBody | GitHubError] = {}
    for chunk in batches(list(dict.fromkeys(node_ids)), RULESETS_PER_REQUEST):
        data = calls.query(rule_queries.RULESET_BODIES, {"ids": chunk})
        nodes = data.fields.get("nodes")
        if not isinstance(nodes, list) or len(nodes) != len(chunk):
            raise unavailable("sent an incomplete list", maybe_applied=False)
        for index, (node_id, node) in enumerate(zip(chunk, nodes, strict=True)):
            found[node_id] = _read(node_id, node, data, index)
    return [found[node_id] for node_id in node_ids]


def write_rulesets(calls: Calls, updates: Sequence[tuple[str, Mapping[str, Any]]]) -> list[GitHubError | None]:
    """Replace rulesets as a whole; see `InstallationClient.write_rulesets`."""
    inputs = [{"repositoryRulesetId": node_id, **_input(body)} for node_id, body in updates]
    payloads = _mutate(calls, rule_queries.update_rulesets, inputs)
    return [payload if isinstance(payload, GitHubError) else None for payload in payloads]


def create_rulesets(
    calls: Calls, creations: Sequence[tuple[str, Mapping[str, Any]]]
) -> list[CreatedRuleset | GitHubError]:
    """Create rulesets of repositories; see `InstallationClient.create_rulesets`."""
    return _mutate(
        calls,
        rule_queries.create_rulesets,
        [{"sourceId": repository_node_id, **_input(body)} for repository_node_id, body in creations],
    )


def _mutate(
    calls: Calls, document: Callable[[int], str], inputs: Sequence[Mapping[str, Any]]
) -> list[CreatedRuleset | GitHubError]:
    if len(inputs) > RULESETS_PER_REQUEST:
        raise ValueError(f"{len(inputs)} rulesets are more than one request may carry")
    if not inputs:
        return []
    data = calls.mutate(document(len(inputs)), {f"i{number}": given for number, given in enumerate(inputs)})
    return [_result(data, f"r{number}") for number in range(len(inputs))]


def _result(data: Data, alias: str) -> CreatedRuleset | GitHubError:
    """Return the ids of a written ruleset; without them and without an error, whether it was written is not known."""
    payload = data.fields.get(alias)
    ruleset = payload.get("ruleset") if isinstance(payload, dict) else None
    node_id, number = (ruleset.get("id"), ruleset.get("databaseId")) if isinstance(ruleset, dict) else (None, None)
    if isinstance(node_id, str) and isinstance(number, int):
        return CreatedRuleset(node_id, number)
    return data.error_at(alias) or unavailable("wrote a ruleset without returning it", maybe_applied=True)


def _read(node_id: str, node: Any, data: Data, index: int) -> RulesetBody | GitHubError:
    if not isinstance(node, dict) or "id" not in node:
        missing = GitHubError(ErrorKind.NOT_FOUND, "GitHub has no such ruleset, or does not show it")
        return data.error_at("nodes", index) or missing
    try:
        with parsing():
            return _body(node_id, node)
    except GitHubError as error:
        return data.error_at("nodes", index) or error


def _body(node_id: str, node: Mapping[str, Any]) -> RulesetBody:
    actors, rules = (node["bypassActors"] or {}).get("totalCount"), node["rules"]
    conditions = {name: condition for name, condition in node["conditions"].items() if condition is not None}
    kinds = {str(rule["type"]).lower() for rule in rules["nodes"]}
    names = conditions.get("refName")
    body = {
        "name": str(node["name"]),
        "target": node["target"].lower(),
        "enforcement": node["enforcement"].lower(),
        **({"bypass_actors": []} if actors == 0 else {}),
        "conditions": {"ref_name": {side: list(names[side]) for side in ("include", "exclude")}} if names else {},
        "rules": [_rule(rule) for rule in rules["nodes"]],
    }
    whole = kinds <= _TRANSLATED and not rules["pageInfo"]["hasNextPage"]
    return RulesetBody(node_id, body, whole and actors == 0 and set(conditions) == {"refName"})


def _rule(node: Mapping[str, Any]) -> dict[str, Any]:
    kind, given = str(node["type"]).lower(), node["parameters"]
    if kind != STATUS_CHECKS:
        return {"type": kind}
    parameters = {
        "strict_required_status_checks_policy": bool(given["strictRequiredStatusChecksPolicy"]),
        "do_not_enforce_on_create": bool(given["doNotEnforceOnCreate"]),
        "required_status_checks": [_check(check) for check in given["requiredStatusChecks"]],
    }
    return {"type": kind, "parameters": parameters}


def _check(node: Mapping[str, Any]) -> dict[str, Any]:
    context, app_id = str(node["context"]), app_of(node["integrationId"])
    return {"context": context} if app_id is None else {"context": context, "integration_id": app_id}


def _input(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole of a body as the input of a mutation. Raise ValueError if a part cannot be translated."""
    conditions = body["conditions"]
    if body.get("bypass_actors") or set(conditions) != {"ref_name"}:
        raise ValueError("bypass actors, and conditions other than ref_name, cannot be translated")
    names = conditions["ref_name"]
    return {
        "name": body["name"],
        "target": body["target"].upper(),
        "enforcement": body["enforcement"].upper(),
        "bypassActors": [],
        "conditions": {"refName": {side: list(names.get(side) or ()) for side in ("include", "exclude")}},
        "rules": [_rule_input(rule) for rule in body["rules"]],
    }


def _rule_input(rule: Mapping[str, Any]) -> dict[str, Any]:
    kind = rule["type"]
    if kind not in _TRANSLATED:
        raise ValueError(f"a rule of type {kind!r} cannot be translated")
    if kind != STATUS_CHECKS:
        return {"type": kind.upper()}
    given = rule["parameters"]
    checks = {
        "strictRequiredStatusChecksPolicy": given["strict_required_status_checks_policy"],
        "doNotEnforceOnCreate": bool(given.get("do_not_enforce_on_create")),
        "requiredStatusChecks": [_check_input(check) for check in given["required_status_checks"]],
    }
    return {"type": kind.upper(), "parameters": {"requiredStatusChecks": checks}}


def _check_input(check: Mapping[str, Any]) -> dict[str, Any]:
    app_id = app_of(check.get("integration_id"))
    return {"context": check["context"]} if app_id is None else {"context": check["context"], "integrationId": app_id}
