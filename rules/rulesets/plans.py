"""Plan the changes from the rulesets that GitHub has to those that are wanted.

A ruleset that we did not create is never changed or removed. One of ours is restored where it was loosened; what people
added without loosening it (further rules, further checks, another name) stays. One that is not needed any more is
removed, unless people have added to it: then only our check is removed, and we do not manage the ruleset any more.
"""

import difflib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rules.rulesets.needs import Level, Need, WantedRuleset
from rules.rulesets.rulesets import DELETION, RULE_TYPE, pattern_of, ref_patterns, requires

Action = Literal["create", "update", "delete", "none"]
Ruleset = Mapping[str, Any]
WRITTEN_FIELDS = ("name", "target", "enforcement", "bypass_actors", "conditions", "rules")
"""The fields of a ruleset that we write; GitHub adds ids, addresses and times."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where rulesets are kept: a GitHub account, or one of its repositories."""

    level: Level
    account: str
    repository_id: str | None = None
    repository: str | None = None
    """`owner/name`."""


@dataclass(frozen=True, slots=True)
class Existing:
    """A ruleset on GitHub."""

    ruleset_id: int
    ruleset: Ruleset
    forbids_deletion: bool = False
    """Whether its rule against deletion is recorded as written by us, not by people."""


@dataclass(frozen=True, slots=True)
class Found:
    """What GitHub has at the place of one wanted ruleset."""

    own: Existing | None = None
    """The ruleset that is recorded as created by us."""
    taken: Mapping[str, Existing | None] | None = None
    """Names of the place's other rulesets; with the ruleset where we began to create one of that name and do not know
    whether we did."""
    covered: bool = False
    """Active rules, ours or others', already require the check from our App wherever it is needed."""


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
    recognized: bool = False
    """The ruleset is ours, but not yet recorded."""
    unmanaged: bool = False
    """An update that removes only our check; we do not manage the ruleset afterwards."""
    forbids_deletion: bool = False
    """The ruleset has a rule against deletion afterwards that we have written."""
    deleted_branch: str | None = None
    """The id of the deleted branch whose own rule this was: it is not watched until it is created again."""

    @property
    def removes(self) -> bool:
        """Whether this ruleset does not require our check afterwards."""
        return self.action == "delete" or self.unmanaged

    @property
    def branch_ids(self) -> list[str]:
        """The branches of the scope that the ruleset covers."""
        return [branch.branch_id for need in self.needs for branch in need.branches]

    @property
    def repositories(self) -> dict[str, str]:
        """The repositories that the ruleset covers, or covered: id → `owner/name`."""
        place = self.place
        if place.repository_id is not None and place.repository is not None:
            return {place.repository_id: place.repository}
        return {need.repository.repository_id: need.repository.full_name for need in self.needs}

    @property
    def name(self) -> str:
        """The ruleset's name, for people."""
        known = self.after or self.before or {}
        return str(known.get("name", self.check_name))

    @property
    def diff(self) -> str:
        """A unified diff of the JSON from `before` to `after`; empty if nothing changes."""
        return difference(self.before, self.after) if self.action != "none" else ""


def plan_ruleset(wanted: WantedRuleset, place: Place, found: Found) -> Change:
    """Return the change after which the wanted ruleset is in force."""
    if found.own is not None:
        before = normalized(found.own.ruleset)
        after = restored(before, wanted)
        action: Action = "none" if after == before else "update"
        return Change(
            action,
            place,
            wanted.check_name,
            wanted.needs,
            found.own.ruleset_id,
            before,
            after,
            forbids_deletion=_has_deletion(after) and (found.own.forbids_deletion or not _has_deletion(before)),
        )
    name = str(wanted.ruleset["name"])
    taken = found.taken or {}
    number = 1
    while name in taken:
        unconfirmed = taken[name]
        if unconfirmed is not None and _is_ours(whole := normalized(unconfirmed.ruleset), name, wanted):
            ruleset_id = unconfirmed.ruleset_id
            return Change(
                "none",
                place,
                wanted.check_name,
                wanted.needs,
                ruleset_id,
                whole,
                whole,
                recognized=True,
                forbids_deletion=_has_deletion(whole),
            )
        number += 1
        name = f"{wanted.ruleset['name']} ({number})"
    if found.covered:
        return Change("none", place, wanted.check_name, wanted.needs)
    after = {**wanted.ruleset, "name": name}
    forbids = _has_deletion(after)
    return Change("create", place, wanted.check_name, wanted.needs, after=after, forbids_deletion=forbids)


def plan_removal(existing: Existing, place: Place, check_name: str) -> Change:
    """Return the removal of a ruleset that is not needed any more; only of our check if people added to it."""
    before = normalized(existing.ruleset)
    rules = [left for rule in before.get("rules") or () if (left := _without(rule, check_name)) is not None]
    if existing.forbids_deletion:
        rules = [rule for rule in rules if rule.get("type") != DELETION]
    if rules or before.get("bypass_actors") or _limited_by_people(before, check_name):
        after = {**before, "rules": rules}
        return Change("update", place, check_name, (), existing.ruleset_id, before, after, unmanaged=True)
    return Change("delete", place, check_name, (), existing.ruleset_id, before)


def plan_without(existing: Existing, place: Place, check_name: str, repository_ids: Collection[int]) -> Change:
    """Return the change that removes repositories (GitHub's ids) from a ruleset of the organisation.

    If none would be left, it is that of `plan_removal`.
    """
    before = normalized(existing.ruleset)
    conditions = before.get("conditions") or {}
    named = conditions.get("repository_id") or {}
    left = [each for each in named.get("repository_ids") or () if each not in repository_ids]
    if not left:
        return plan_removal(existing, place, check_name)
    after = {**before, "conditions": {**conditions, "repository_id": {**named, "repository_ids": left}}}
    forbids = existing.forbids_deletion
    return Change("update", place, check_name, (), existing.ruleset_id, before, after, forbids_deletion=forbids)


def _without(rule: Ruleset, check_name: str) -> Ruleset | None:
    """Return the rule without the check; None if nothing is left of it."""
    if rule.get("type") != RULE_TYPE:
        return rule
    parameters = dict(rule.get("parameters") or {})
    checks = [each for each in parameters.get("required_status_checks") or () if each.get("context") != check_name]
    return {**rule, "parameters": {**parameters, "required_status_checks": checks}} if checks else None


def _limited_by_people(ruleset: Ruleset, check_name: str) -> bool:
    """True if the conditions are of a kind that we never write, or include other branches than ours.

    Exclusions say nothing: we write them too, and they change.
    """
    include, _exclude, _repository_ids, others = _conditions(ruleset)
    return bool(others or (include and include != frozenset(ref_patterns(pattern_of(check_name)))))


def normalized(ruleset: Ruleset) -> dict[str, Any]:
    """Return the fields of a ruleset that can be written, without those that GitHub adds."""
    return {name: ruleset[name] for name in WRITTEN_FIELDS if name in ruleset}


def restored(before: Ruleset, wanted: WantedRuleset) -> dict[str, Any]:
    """Return a ruleset of ours as it must be; equal to `before` if nothing was loosened."""
    ours = wanted.ruleset
    changed = {**before, "target": ours["target"], "enforcement": ours["enforcement"]}
    if changed.get("bypass_actors"):  # hidden from those who may not write it
        changed["bypass_actors"] = []
    if _conditions(before) != _conditions(ours):
        changed["conditions"] = ours["conditions"]
    rule = next(each for each in ours["rules"] if each["type"] == RULE_TYPE)
    old = next((each for each in before.get("rules") or () if requires(each, wanted.check_name)), None)
    if old is None:
        changed["rules"] = [*(before.get("rules") or ()), rule]
    elif (new := _restored_rule(old, rule, wanted.check_name)) != old:
        changed["rules"] = [new if each is old else each for each in before["rules"]]
    if _has_deletion(ours) and not _has_deletion(before):
        changed["rules"] = [*(changed.get("rules") or ()), {"type": DELETION}]
    return changed


def _has_deletion(ruleset: Ruleset) -> bool:
    return any(rule.get("type") == DELETION for rule in ruleset.get("rules") or ())


def _restored_rule(old: Ruleset, wanted: Ruleset, check_name: str) -> dict[str, Any]:
    """Pin the check to our App; other checks and a strict policy stay."""
    parameters = dict(old["parameters"])
    checks = list(parameters["required_status_checks"])
    mine = wanted["parameters"]["required_status_checks"]
    if [check for check in checks if check.get("context") == check_name] != mine:
        parameters["required_status_checks"] = [each for each in checks if each.get("context") != check_name] + mine
    parameters["do_not_enforce_on_create"] = True
    return {"type": RULE_TYPE, "parameters": parameters}


def matches_intent(existing: Ruleset, intent: Change) -> bool:
    """True if a ruleset is the one that an intended creation makes."""
    if intent.after is None:
        return False
    wanted = WantedRuleset(intent.place.level, intent.check_name, (), intent.after)
    return _is_ours(normalized(existing), intent.after["name"], wanted)


def _is_ours(existing: Ruleset, name: str, wanted: WantedRuleset) -> bool:
    """True if a ruleset is exactly the one that we write under a name; the order of unordered fields does not count."""
    rules = existing.get("rules") or ()
    checks = [check for rule in rules for check in (rule.get("parameters") or {}).get("required_status_checks", ())]
    only_ours = len(checks) == 1 and len(rules) == len(wanted.ruleset["rules"])
    return restored(existing, wanted) == existing and existing["name"] == name and only_ours


def _conditions(ruleset: Ruleset) -> tuple[Any, ...]:
    """Return what a ruleset includes, excludes, GitHub's ids of its repositories, and the names of other conditions."""
    conditions = ruleset.get("conditions") or {}
    names, repositories = conditions.get("ref_name") or {}, conditions.get("repository_id") or {}
    others = sorted(set(conditions) - {"ref_name", "repository_id"})
    return (
        frozenset(names.get("include") or ()),
        frozenset(names.get("exclude") or ()),
        frozenset(repositories.get("repository_ids") or ()),
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
