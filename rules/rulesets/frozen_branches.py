"""The ruleset that keeps the frozen branches of a repository from being deleted, created or renamed.

A repository has one, for all branches that are frozen at the moment. Without any it is disabled and names no branch; it
is kept for the next freeze. What people add to it without loosening it stays, and applies while a branch is frozen.

It may have a stop: a required context of our App that no head has, so that nothing can be merged into these branches or
pushed to them.

A ruleset of an organisation has nothing but the stop of many of its repositories (`repositories`: GitHub's ids).
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rules.freezes.check_names import is_stop
from rules.rulesets.plans import normalized
from rules.rulesets.rulesets import RULE_TYPE, ref_of, ruleset_name

NAME = ruleset_name("frozen branches")
"""No ruleset of a branch or of a pattern has this name: neither contains a space."""
RULE_TYPES = ("creation", "deletion")
"""The rules that GitHub asks when a branch is created or deleted; renaming does both."""
_CHECKS = "required_status_checks"


@dataclass(frozen=True, slots=True)
class Stop:
    """A context that our App alone may report, and that is required for a while."""

    context: str
    app_id: int


def stop_of(context: str | None, app_id: int) -> Stop | None:
    """Return the stop with this context; None for none."""
    return None if context is None else Stop(context, app_id)


def wanted_ruleset(
    branches: Iterable[str],
    name: str = NAME,
    stop: Stop | None = None,
    repositories: Collection[int] | None = None,
) -> dict[str, Any]:
    """Return GitHub's JSON of the ruleset for exactly these branches, of these repositories of an organisation."""
    include = [ref_of(branch) for branch in sorted(set(branches))]
    conditions: dict[str, Any] = {"ref_name": {"include": include, "exclude": []}}
    if repositories is not None:
        conditions["repository_id"] = {"repository_ids": sorted(repositories)}
    kinds = RULE_TYPES if repositories is None else ()
    return {
        "name": name,
        "target": "branch",
        "enforcement": "active" if include else "disabled",
        "bypass_actors": [],
        "conditions": conditions,
        "rules": [*({"type": kind} for kind in kinds), *_stop_rules((), stop)],
    }


def restored_ruleset(
    existing: Mapping[str, Any],
    branches: Collection[str],
    stop: Stop | None = None,
    repositories: Collection[int] | None = None,
) -> dict[str, Any]:
    """Return our ruleset as it must be for exactly these branches; equal to `existing` if nothing has to change.

    `existing` is as GitHub returns it. A name that people gave it, and rules that they added, stay. One that names no
    branch keeps its repositories, without which GitHub would not take it.
    """
    before = normalized(existing)
    if repositories is not None and not branches:
        repositories = _repositories(before)
    wanted = wanted_ruleset(branches, repositories=repositories)
    after = {**before, "target": wanted["target"], "enforcement": wanted["enforcement"]}
    if before.get("bypass_actors"):  # hidden from those who may not write it
        after["bypass_actors"] = []
    if (_conditions(before), _repositories(before)) != (_conditions(wanted), _repositories(wanted)):
        after["conditions"] = wanted["conditions"]
    rules = list(before.get("rules") or ())
    present = {rule.get("type") for rule in rules}
    rules += [rule for rule in wanted["rules"] if rule["type"] not in present]
    if _stops_of(rules) != ([] if stop is None else [_required(stop)]):
        others = [rule for rule in rules if rule.get("type") != RULE_TYPE]
        rules = [*others, *_stop_rules([rule for rule in rules if rule.get("type") == RULE_TYPE], stop)]
    if rules != list(before.get("rules") or ()):
        after["rules"] = rules
    return after


def stops_in(ruleset: Mapping[str, Any]) -> list[str]:
    """Return the contexts of stops that a ruleset requires."""
    return [str(check["context"]) for check in _stops_of(ruleset.get("rules") or ())]


def holds(
    existing: Mapping[str, Any], branches: Iterable[str], stop: Stop, repositories: Collection[int] | None = None
) -> bool:
    """True if our ruleset requires this stop alone, of all of these branches, of these repositories."""
    include, exclude, others = _conditions(existing)
    kind = [] if repositories is None else ["repository_id"]
    named = include >= {ref_of(branch) for branch in branches} and not exclude
    covers = named and others == kind and _repositories(existing) >= set(repositories or ())
    return covers and _stops_of(existing.get("rules") or ()) == [_required(stop)]


def without_our_rules(existing: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return our ruleset with only what people added to it; None if nothing is left, and it may be deleted."""
    before = normalized(existing)
    kept = [rule for rule in before.get("rules") or () if rule.get("type") not in (*RULE_TYPES, RULE_TYPE)]
    checks = _stop_rules([rule for rule in before.get("rules") or () if rule.get("type") == RULE_TYPE], None)
    return {**before, "rules": kept + checks} if kept or checks else None


def is_as_written(existing: Mapping[str, Any], written: Mapping[str, Any]) -> bool:
    """True if a ruleset is exactly what was sent to create it; the order of unordered fields does not count."""
    found = normalized(existing)
    return (
        all(found.get(name) == written[name] for name in ("name", "target", "enforcement"))
        and not found.get("bypass_actors")
        and _conditions(found) == _conditions(written)
        and _repositories(found) == _repositories(written)
        and _types(found) == _types(written)
        and stops_in(found) == stops_in(written)
    )


def fingerprint(ruleset: Mapping[str, Any]) -> str:
    """Return a short text that says what a ruleset forbids, where, and who may bypass it; its name does not count.

    Raise AttributeError, KeyError or TypeError for what is no ruleset.
    """
    include, exclude, others = _conditions(ruleset)
    checks = [
        [rule["parameters"].get("strict_required_status_checks_policy"), check["context"], check.get("integration_id")]
        for rule in ruleset.get("rules") or ()
        if rule["type"] == RULE_TYPE
        for check in rule["parameters"][_CHECKS]
    ]
    said = {
        "enforcement": ruleset["enforcement"],
        "target": ruleset["target"],
        "bypass": bool(ruleset.get("bypass_actors")),
        "refs": [sorted(include), sorted(exclude), others],
        "repositories": sorted(_repositories(ruleset)) if include else [],
        "rules": _types(ruleset),
        "checks": checks,
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def free_name(taken: Collection[str]) -> str:
    """Return the name of a new ruleset where others have these."""
    number, name = 1, NAME
    while name in taken:
        number += 1
        name = f"{NAME} ({number})"
    return name


def _required(stop: Stop) -> dict[str, Any]:
    return {"context": stop.context, "integration_id": stop.app_id}


def _stop_rules(rules: Sequence[Mapping[str, Any]], stop: Stop | None) -> list[dict[str, Any]]:
    """Return rules that require checks, with this stop in place of every other; what people require stays."""
    if not rules:
        rules = [{"type": RULE_TYPE, "parameters": {"strict_required_status_checks_policy": False}}]
    first, *others = ({**rule, "parameters": _without_stops(rule)} for rule in rules)
    if stop is not None:
        first["parameters"][_CHECKS] += [_required(stop)]
        first["parameters"]["do_not_enforce_on_create"] = False
    return [rule for rule in (first, *others) if rule["parameters"][_CHECKS]]


def _without_stops(rule: Mapping[str, Any]) -> dict[str, Any]:
    parameters = rule.get("parameters") or {}
    kept = [check for check in parameters.get(_CHECKS) or () if not is_stop(str(check["context"]))]
    return {**parameters, _CHECKS: kept}


def _stops_of(rules: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the stops that rules require, each as context and App."""
    return [
        {"context": check["context"], "integration_id": check.get("integration_id")}
        for rule in rules
        for check in (rule.get("parameters") or {}).get(_CHECKS) or ()
        if is_stop(str(check["context"]))
    ]


def _types(ruleset: Mapping[str, Any]) -> list[str]:
    return sorted(str(rule.get("type")) for rule in ruleset.get("rules") or ())


def _conditions(ruleset: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a ruleset includes and excludes, and the names of its other conditions."""
    conditions = ruleset.get("conditions") or {}
    names = conditions.get("ref_name") or {}
    include, exclude = (frozenset(names.get(side) or ()) for side in ("include", "exclude"))
    return include, exclude, sorted(set(conditions) - {"ref_name"})


def _repositories(ruleset: Mapping[str, Any]) -> frozenset[int]:
    """Return GitHub's ids of the repositories that a ruleset of an organisation names."""
    condition = (ruleset.get("conditions") or {}).get("repository_id") or {}
    return frozenset(condition.get("repository_ids") or ())
