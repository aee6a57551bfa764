"""The ruleset that keeps the frozen branches of a repository from being deleted, created or renamed.

A repository has one, for all branches that are frozen at the moment. Without any it is disabled and names no branch; it
is kept for the next freeze. What people add to it without loosening it stays, and applies while a branch is frozen.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from rules.rulesets.plans import normalized
from rules.rulesets.rulesets import ref_of, ruleset_name

NAME = ruleset_name("frozen branches")
"""No ruleset of a branch or of a pattern has this name: neither contains a space."""
RULE_TYPES = ("creation", "deletion")
"""The rules that GitHub asks when a branch is created or deleted; renaming does both."""


def wanted_ruleset(branches: Iterable[str], name: str = NAME) -> dict[str, Any]:
    """Return GitHub's JSON of the ruleset for exactly these branches."""
    include = [ref_of(branch) for branch in sorted(set(branches))]
    return {
        "name": name,
        "target": "branch",
        "enforcement": "active" if include else "disabled",
        "bypass_actors": [],
        "conditions": {"ref_name": {"include": include, "exclude": []}},
        "rules": [{"type": kind} for kind in RULE_TYPES],
    }


def restored_ruleset(existing: Mapping[str, Any], branches: Iterable[str]) -> dict[str, Any]:
    """Return our ruleset as it must be for exactly these branches; equal to `existing` if nothing has to change.

    `existing` is as GitHub returns it. A name that people gave it, and rules that they added, stay.
    """
    before = normalized(existing)
    wanted = wanted_ruleset(branches)
    after = {**before, "target": wanted["target"], "enforcement": wanted["enforcement"]}
    if before.get("bypass_actors"):  # hidden from those who may not write it
        after["bypass_actors"] = []
    if _conditions(before) != _conditions(wanted):
        after["conditions"] = wanted["conditions"]
    present = {rule.get("type") for rule in before.get("rules") or ()}
    missing = [rule for rule in wanted["rules"] if rule["type"] not in present]
    if missing:
        after["rules"] = [*(before.get("rules") or ()), *missing]
    return after


def without_our_rules(existing: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return our ruleset with only what people added to it; None if nothing is left, and it may be deleted."""
    before = normalized(existing)
    rules = [rule for rule in before.get("rules") or () if rule.get("type") not in RULE_TYPES]
    return {**before, "rules": rules} if rules else None


def is_as_written(existing: Mapping[str, Any], written: Mapping[str, Any]) -> bool:
    """True if a ruleset is exactly what was sent to create it; the order of unordered fields does not count."""
    found = normalized(existing)
    types = sorted(str(rule.get("type")) for rule in found.get("rules") or ())
    return (
        all(found.get(name) == written[name] for name in ("name", "target", "enforcement"))
        and not found.get("bypass_actors")
        and _conditions(found) == _conditions(written)
        and types == sorted(RULE_TYPES)
    )


def free_name(taken: Collection[str]) -> str:
    """Return the name of a new ruleset where others have these."""
    number, name = 1, NAME
    while name in taken:
        number += 1
        name = f"{NAME} ({number})"
    return name


def _conditions(ruleset: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a ruleset includes and excludes, and the names of its other conditions."""
    conditions = ruleset.get("conditions") or {}
    names = conditions.get("ref_name") or {}
    include, exclude = (frozenset(names.get(side) or ()) for side in ("include", "exclude"))
    return include, exclude, sorted(set(conditions) - {"ref_name"})
