"""From the rulesets that are wanted and those that the code host has to the changes between the two.

A ruleset that we did not create is never changed nor removed. One of ours is mended where it was loosened; what people
added to it that does not loosen it (further rules, further checks, another name) stays. One that nothing needs any more
is removed, unless people made it theirs too: then our check alone is taken out, and the ruleset is ours no more.
"""

import difflib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rules.rulesets.needs import Level, Need, Target
from rules.rulesets.rulesets import RULE_TYPE, pattern_of, ref_patterns, requires

Action = Literal["create", "update", "delete", "none"]
Ruleset = Mapping[str, Any]
WRITTEN = ("name", "target", "enforcement", "bypass_actors", "conditions", "rules")
"""What we write of a ruleset; the code host adds ids, addresses and times."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where rulesets are kept: an account of the code host, or one of its repositories."""

    level: Level
    account: str
    repository_id: str | None = None
    repository: str | None = None
    """`owner/name`."""


@dataclass(frozen=True, slots=True)
class Existing:
    """A ruleset at the code host."""

    ruleset_id: int
    ruleset: Ruleset


@dataclass(frozen=True, slots=True)
class Found:
    """What the code host has at the place of one target."""

    own: Existing | None = None
    """Recorded as created by us."""
    taken: Mapping[str, Existing | None] | None = None
    """Names of the place's other rulesets; with the ruleset where we began to create one of that name and know not
    whether we did."""
    covered: bool = False
    """An active rule, whoever wrote it, already requires the check from our App wherever it is needed."""


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to one ruleset."""

    action: Action
    place: Place
    check_name: str
    needs: tuple[Need, ...] = ()
    ruleset_id: int | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    adopted: bool = False
    """It is ours, and is still to be recorded as such."""
    disowned: bool = False
    """An update that leaves to people what they added; the ruleset is not ours afterwards."""

    @property
    def removes(self) -> bool:
        """Whether our check is required by this ruleset no more, and the ruleset is not ours afterwards."""
        return self.action == "delete" or self.disowned

    @property
    def branch_ids(self) -> list[str]:
        """The branches of the scope that it covers."""
        return [branch.branch_id for need in self.needs for branch in need.branches]

    @property
    def name(self) -> str:
        """The ruleset's name, for people."""
        known = self.after or self.before or {}
        return str(known.get("name", self.check_name))

    @property
    def diff(self) -> str:
        """From `before` to `after`, as a unified diff of their JSON; empty where nothing changes."""
        return difference(self.before, self.after) if self.action != "none" else ""


def plan_target(target: Target, place: Place, found: Found) -> Change:
    """Return what has to happen so that a ruleset as wanted is in force."""
    if found.own is not None:
        before = settled(found.own.ruleset)
        after = mended(before, target)
        action: Action = "none" if after == before else "update"
        return Change(action, place, target.check_name, target.needs, found.own.ruleset_id, before, after)
    name = str(target.ruleset["name"])
    taken = found.taken or {}
    number = 1
    while name in taken:
        left = taken[name]
        if left is not None and _is(settled(left.ruleset), {**target.ruleset, "name": name}, target):
            whole = settled(left.ruleset)
            return Change("none", place, target.check_name, target.needs, left.ruleset_id, whole, whole, adopted=True)
        number += 1
        name = f"{target.ruleset['name']} ({number})"
    if found.covered:
        return Change("none", place, target.check_name, target.needs)
    return Change("create", place, target.check_name, target.needs, after={**target.ruleset, "name": name})


def plan_removal(existing: Existing, place: Place, check_name: str) -> Change:
    """Return the removal of a ruleset of ours that nothing needs any more; of our check alone if people added to it."""
    before = settled(existing.ruleset)
    rules = [left for rule in before.get("rules") or () if (left := _without(rule, check_name)) is not None]
    if rules or before.get("bypass_actors") or _limited_by_people(before, check_name):
        after = {**before, "rules": rules}
        return Change("update", place, check_name, (), existing.ruleset_id, before, after, disowned=True)
    return Change("delete", place, check_name, (), existing.ruleset_id, before)


def plan_without(existing: Existing, place: Place, check_name: str, repository_ids: Collection[int]) -> Change:
    """Return the change that takes repositories (the code host's ids) out of an organisation's ruleset of ours.

    Where none would be left, it is that of `plan_removal`.
    """
    before = settled(existing.ruleset)
    conditions = before.get("conditions") or {}
    named = conditions.get("repository_id") or {}
    left = [each for each in named.get("repository_ids") or () if each not in repository_ids]
    if not left:
        return plan_removal(existing, place, check_name)
    after = {**before, "conditions": {**conditions, "repository_id": {**named, "repository_ids": left}}}
    return Change("update", place, check_name, (), existing.ruleset_id, before, after)


def _without(rule: Ruleset, check_name: str) -> Ruleset | None:
    """Return a rule that does not require the check; None where nothing is left of it."""
    if rule.get("type") != RULE_TYPE:
        return rule
    parameters = dict(rule.get("parameters") or {})
    checks = [each for each in parameters.get("required_status_checks") or () if each.get("context") != check_name]
    return {**rule, "parameters": {**parameters, "required_status_checks": checks}} if checks else None


def _limited_by_people(ruleset: Ruleset, check_name: str) -> bool:
    """Tell whether conditions are of a kind that we never write, or are for other branches than ours.

    What is excluded is no sign: we write that too, and it differs from time to time.
    """
    include, _exclude, _numbers, others = _conditions(ruleset)
    return bool(others or (include and include != frozenset(ref_patterns(pattern_of(check_name)))))


def settled(ruleset: Ruleset) -> dict[str, Any]:
    """Return what people settle about a ruleset, without the code host's own fields."""
    return {name: ruleset[name] for name in WRITTEN if name in ruleset}


def mended(before: Ruleset, target: Target) -> dict[str, Any]:
    """Return a ruleset of ours as it has to be; equal to `before` where nothing was loosened."""
    wanted = target.ruleset
    changed = {**before, "target": wanted["target"], "enforcement": wanted["enforcement"]}
    if changed.get("bypass_actors"):  # hidden from those who may not write it
        changed["bypass_actors"] = []
    if _conditions(before) != _conditions(wanted):
        changed["conditions"] = wanted["conditions"]
    [rule] = wanted["rules"]
    old = next((each for each in before.get("rules") or () if requires(each, target.check_name)), None)
    if old is None:
        changed["rules"] = [*(before.get("rules") or ()), rule]
    elif (new := _mended_rule(old, rule, target.check_name)) != old:
        changed["rules"] = [new if each is old else each for each in before["rules"]]
    return changed


def _mended_rule(old: Ruleset, wanted: Ruleset, check_name: str) -> dict[str, Any]:
    """Pin the check to us; checks of others and a strict policy stay."""
    parameters = dict(old["parameters"])
    checks = list(parameters["required_status_checks"])
    mine = wanted["parameters"]["required_status_checks"]
    if [check for check in checks if check.get("context") == check_name] != mine:
        parameters["required_status_checks"] = [each for each in checks if each.get("context") != check_name] + mine
    parameters["do_not_enforce_on_create"] = True
    return {"type": RULE_TYPE, "parameters": parameters}


def is_as_announced(existing: Ruleset, announced: Change) -> bool:
    """Tell whether a ruleset is the very one that an announced creation makes."""
    wanted = announced.after or {}
    target = Target(announced.place.level, announced.check_name, (), wanted)
    return announced.after is not None and _is(settled(existing), wanted, target)


def _is(existing: Ruleset, wanted: Ruleset, target: Target) -> bool:
    """Tell whether a ruleset is the very one that we write, whatever the order of what has none."""
    rules = existing.get("rules") or ()
    checks = [check for rule in rules for check in (rule.get("parameters") or {}).get("required_status_checks", ())]
    return (
        mended(existing, target) == existing and existing["name"] == wanted["name"] and len(rules) == len(checks) == 1
    )


def _conditions(ruleset: Ruleset) -> tuple[Any, ...]:
    conditions = ruleset.get("conditions") or {}
    names, numbers = conditions.get("ref_name") or {}, conditions.get("repository_id") or {}
    others = sorted(set(conditions) - {"ref_name", "repository_id"})
    return (
        frozenset(names.get("include") or ()),
        frozenset(names.get("exclude") or ()),
        frozenset(numbers.get("repository_ids") or ()),
        others,
    )


def difference(before: Ruleset | None, after: Ruleset | None) -> str:
    """Return a unified diff of two rulesets' JSON, its keys in order."""
    return "".join(difflib.unified_diff(_lines(before), _lines(after), "before", "after"))


def _lines(ruleset: Ruleset | None) -> list[str]:
    if ruleset is None:
        return []
    written = json.dumps(ruleset, indent=2, sort_keys=True, ensure_ascii=False)
    return [line + "\n" for line in written.splitlines()]
