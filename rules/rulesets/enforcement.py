"""Enforcement: from what GitHub shows of a branch's rules to a light that says whether our check blocks merges.

**Green** needs proof: an active ruleset requires the check from our App, and there are no bypass actors. **Red** is
proof of the contrary. Everything between is amber, also what cannot be read. Two rules keep missing data from turning
a light green:

- an empty list counts only with the permission to read its items (`permissions`): GitHub omits what it does not show;
- what was read once and cannot be read any more counts as unchanged (`before`).

The effect of several rulesets adds up, so the best of those that require the check speaks for the branch; but one
that accepts it only from another App can never be satisfied by us.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from rules.freezes.blocking import Way
from rules.freezes.check_names import PREFIX, is_stop
from rules.rulesets import findings
from rules.rulesets.findings import Finding, Light, light_of

Level = Literal["repository", "organization", "enterprise"]
DEFAULT_BRANCH = "~DEFAULT_BRANCH"
"""The `ref_name` pattern of whichever branch is the default."""

_MAY_SEE_ACTORS: Mapping[str, str] = {"repository": "administration", "organization": "organization_administration"}


@dataclass(frozen=True, slots=True)
class BypassActor:
    """An actor that can bypass a ruleset."""

    type: str
    """As in GitHub's REST API: `Integration`, `Team`, `User`, `OrganizationAdmin`, `RepositoryRole`, `DeployKey`,
    `EnterpriseOwner`; `Unknown` where GitHub says only that there is one."""
    id: int | None = None
    name: str | None = None
    mode: str = "always"
    """`always`, `pull_request`, or `exempt`."""

    def as_json(self) -> dict[str, Any]:
        """Return the actor as it is stored and shown."""
        return {"type": self.type, "id": self.id, "name": self.name, "mode": self.mode}


ADMINISTRATORS = BypassActor("RepositoryRole", None, "admin")
"""Classic protection does not apply to them unless it says so."""


@dataclass(frozen=True, slots=True)
class Ruleset:
    """A ruleset; `bypass_actors` as GitHub returned them, None if it did not."""

    id: int | None
    name: str
    enforcement: str
    """`active`, `evaluate` or `disabled`."""
    level: Level | None
    bypass_actors: tuple[BypassActor, ...] | None = None
    updated_at: str | None = None
    """When it was last changed, as GitHub spells it, only to be compared; None: unknown."""
    by_default_branch: bool = False
    """Whether it applies to the branch only as long as that is the default branch (`~DEFAULT_BRANCH`)."""

    def as_json(self) -> dict[str, Any]:
        """Return the ruleset as it is shown and audited."""
        return {"id": self.id, "name": self.name, "enforcement": self.enforcement}


@dataclass(frozen=True, slots=True)
class RequiredCheck:
    """A check that a rule requires, from one App (its id) or from any source (None)."""

    context: str
    app_id: int | None


@dataclass(frozen=True, slots=True)
class ActiveRule:
    """A rule that is in force for a branch; `ruleset` is None if GitHub does not show it."""

    type: str
    """As in GitHub's REST API: `required_status_checks`, `merge_queue`, `creation`, `deletion`."""
    ruleset: Ruleset | None
    checks: tuple[RequiredCheck, ...] = ()
    grouping_strategy: str | None = None


@dataclass(frozen=True, slots=True)
class ClassicProtection:
    """The classic branch protection of a branch."""

    checks: tuple[RequiredCheck, ...] = ()
    binds_administrators: bool = True
    locked: bool = False


@dataclass(frozen=True, slots=True)
class BranchFacts:
    """Everything that is known of a branch at one moment."""

    check_name: str
    """The branch's own."""
    app_id: int
    rules: tuple[ActiveRule, ...] | None
    """The rules in force; None: not readable."""
    inactive: tuple[Ruleset, ...] = ()
    """Rulesets that would require a check of this branch, but are disabled or only evaluate."""
    classic: ClassicProtection | None = None
    classic_seen: bool = True
    """False: GitHub refused to show it; "none" counts only with the permission to read administration."""
    queue_seen: bool | None = None
    """Whether the merge queue can be read; None: no queue is visible."""
    queue_strategy: str | None = None
    watched: bool = True
    archived: bool = False
    missing: bool = False
    permissions: Mapping[str, str] = field(default_factory=dict)
    """The App's permissions: `{"administration": "write"}`."""
    pattern_check_name: str | None = None
    """The check that the branches of its pattern share."""
    closable: bool = False
    """Whether this service may write the rules that keep the branch from being deleted while it is frozen."""

    @property
    def check_names(self) -> tuple[str, ...]:
        """The names of the checks that are written on its heads."""
        return (self.check_name,) if self.pattern_check_name is None else (self.check_name, self.pattern_check_name)


@dataclass(frozen=True, slots=True)
class Enforcement:
    """The result of an evaluation."""

    light: Light
    required: bool
    """Whether an active rule requires a check of the branch, pinned to our App or not."""
    own_rule: bool
    """Whether an active rule requires the branch's own check from our App."""
    decisive_check: str | None
    """The required check that decides whether a head may enter: one that only we can write, the branch's own first."""
    open_ways: tuple[Way, ...]
    """The ways into the branch that the rules leave open while it is frozen; any, if no check is required."""
    ruleset: Ruleset | None
    pinned: bool | None
    """None: no rule requires the check, or the rules are not readable."""
    bypass_actors: tuple[BypassActor, ...] | None
    """None: not readable; empty: there are none."""
    merge_queue: Mapping[str, Any] | None
    findings: tuple[Finding, ...]
    seen: bool
    """Whether the rules could be read at all."""
    stops: Mapping[str, Level] = field(default_factory=dict)
    """The contexts of stops that active rules require from our App, with the level of their ruleset."""


def evaluate(facts: BranchFacts, before: Sequence[Finding] = ()) -> Enforcement:
    """Return what the facts prove; `before` are the last findings, for what cannot be read any more."""
    if facts.rules is None:
        return _not_visible(facts, before)
    requirements = [*_of_rules(facts, facts.rules), *_of_classic(facts)]
    own = [each for each in requirements if each.check_name == facts.check_name]
    best = min(own or requirements, key=_rank, default=None)
    noted = [*_of_requirement(facts, best), *_classic(facts, best, before), *_queue(facts, facts.rules)]
    noted += _of_both(facts, requirements)
    decisive = min(requirements, key=_decides, default=None)
    ways = tuple(_open_ways(facts, facts.rules, decisive))
    noted += _of_ways(facts, ways if requirements else ())
    if any(each.pin not in {None, facts.app_id} for each in requirements):
        noted = [finding for finding in noted if finding is not findings.NOT_PINNED] + [findings.PINNED_TO_OTHER_APP]
    noted = [*_relevant(facts, noted, best), *_others(facts, facts.rules), *_infos(facts)]
    return Enforcement(
        light=_light(facts, noted),
        required=bool(requirements),
        own_rule=any(each.pin == facts.app_id for each in own),
        decisive_check=decisive.check_name if decisive else None,
        open_ways=ways,
        ruleset=best.ruleset if best else next(iter(facts.inactive), None),
        pinned=best.pin == facts.app_id if best else None,
        bypass_actors=best.actors if best else None,
        merge_queue=_merge_queue(facts, facts.rules),
        findings=findings.worst_first(noted),
        seen=True,
        stops={
            check.context: (rule.ruleset.level if rule.ruleset else None) or "repository"
            for rule in facts.rules
            for check in rule.checks
            if is_stop(check.context) and check.app_id == facts.app_id
        },
    )


@dataclass(frozen=True, slots=True)
class _Requirement:
    """One active rule that names a check of the branch."""

    check_name: str
    ruleset: Ruleset | None
    pin: int | None
    """The id of the only App that it accepts the check from; None: any source."""
    our_app_id: int
    actors: tuple[BypassActor, ...] | None
    """Who can bypass it; None: not readable."""
    own: bool = True
    """Whether the check is the branch's own, and not that of its pattern."""


def _rank(requirement: _Requirement) -> tuple[bool, int]:
    """Return the sort key of a requirement, the best first: pinned to our App, and without bypass actors."""
    bypassable = 0 if requirement.actors == () else 1 if requirement.actors is None else 2
    return requirement.pin != requirement.our_app_id, bypassable


def _decides(requirement: _Requirement) -> tuple[int, bool]:
    """Return the sort key of a requirement, the one first that decides: whose check only we can write, then our own."""
    pinning = 0 if requirement.pin == requirement.our_app_id else 1 if requirement.pin is None else 2
    return pinning, not requirement.own


def _open_ways(facts: BranchFacts, rules: Sequence[ActiveRule], decisive: _Requirement | None) -> Iterator[Way]:
    """Yield the ways that are open while the branch is frozen, although the check that decides is a failure.

    A branch that cannot be deleted can neither be renamed nor created again. A check that is required does not stop a
    branch from being created, which our rules allow so that a branch that is not frozen can be.
    """
    active = {rule.type for rule in rules if rule.ruleset is None or rule.ruleset.enforcement == "active"}
    if facts.missing and "creation" not in active:
        yield "creation"
    if not facts.missing and "deletion" not in active:
        yield "deletion"
    if decisive is not None and decisive.pin != facts.app_id:
        yield "forgery"
    if decisive is not None and decisive.ruleset is not None and decisive.ruleset.by_default_branch:
        yield "default_branch"


def _of_ways(facts: BranchFacts, ways: Sequence[Way]) -> Iterator[Finding]:
    """Yield the findings on open ways that no other finding names and that this service does not close itself."""
    if facts.archived:
        return
    if {"deletion", "creation"}.intersection(ways) and not facts.closable:
        yield findings.CAN_BE_REPLACED
    if "default_branch" in ways:
        yield findings.ONLY_DEFAULT_BRANCH


def _of_rules(facts: BranchFacts, rules: Sequence[ActiveRule]) -> Iterator[_Requirement]:
    for rule in rules:
        if rule.ruleset is not None and rule.ruleset.enforcement != "active":
            continue
        for check in rule.checks:
            if rule.type == "required_status_checks" and check.context in facts.check_names:
                actors = visible_actors(rule.ruleset, facts.permissions)
                own = check.context == facts.check_name
                yield _Requirement(check.context, rule.ruleset, check.app_id, facts.app_id, actors, own)


def _of_classic(facts: BranchFacts) -> Iterator[_Requirement]:
    for check in facts.classic.checks if facts.classic else ():
        if check.context in facts.check_names:
            bound = facts.classic is not None and facts.classic.binds_administrators
            actors = () if bound else (ADMINISTRATORS,)
            own = check.context == facts.check_name
            yield _Requirement(check.context, None, check.app_id, facts.app_id, actors, own)


def visible_actors(ruleset: Ruleset | None, permissions: Mapping[str, str]) -> tuple[BypassActor, ...] | None:
    """Return who can bypass a ruleset; an empty list counts only for a ruleset that the App may change."""
    if ruleset is None or ruleset.bypass_actors is None:
        return None
    may_see = permissions.get(_MAY_SEE_ACTORS.get(str(ruleset.level), "")) in {"write", "admin"}
    return ruleset.bypass_actors if ruleset.bypass_actors or may_see else None


def _of_requirement(facts: BranchFacts, best: _Requirement | None) -> Iterator[Finding]:
    if best is None:
        for ruleset in facts.inactive[:1]:
            yield findings.ruleset_disabled(facts.check_name, ruleset.name, ruleset.enforcement)
            return
        yield findings.check_not_required(facts.check_name)
        return
    if best.pin is None:
        yield findings.NOT_PINNED
    if best.actors is None:
        yield findings.CANNOT_SEE_BYPASS_ACTORS
    elif best.actors:
        yield findings.bypass_actors(len(best.actors))


def _of_both(facts: BranchFacts, requirements: Sequence[_Requirement]) -> Iterator[Finding]:
    """Yield what is missing of the two requirements of a branch that has a pattern, if there is any."""
    if facts.pattern_check_name is None or not requirements:
        return
    if not any(each.check_name == facts.check_name for each in requirements):
        yield findings.own_check_not_required(facts.check_name, facts.pattern_check_name)
    if not any(each.check_name == facts.pattern_check_name for each in requirements):
        yield findings.pattern_check_not_required(facts.pattern_check_name)


def _classic(facts: BranchFacts, best: _Requirement | None, before: Sequence[Finding]) -> Iterator[Finding]:
    proves_absence = facts.classic_seen and "administration" in facts.permissions
    if facts.classic is None and not proves_absence:
        yield from (finding for finding in before if finding.code == "classic_protection_conflict")
        yield findings.CANNOT_SEE_CLASSIC_PROTECTION
        return
    ours = list(_of_classic(facts))
    if any(each.pin not in {None, facts.app_id} for each in ours):
        name = next(each.check_name for each in ours if each.pin not in {None, facts.app_id})
        message = f"Classic protection accepts {name} only from another App: nothing can be merged."
        yield findings.classic_conflict("critical", message)
    elif ours and best is not None and best.ruleset is None and best in ours:
        message = "Only classic protection requires the check. Set up a ruleset, which this service can maintain."
        yield findings.classic_conflict("warning", message)
    elif ours:
        message = "Classic protection requires the check too, and still does when the ruleset is removed."
        yield findings.classic_conflict("info", message)
    if facts.classic is not None and facts.classic.locked:
        yield findings.classic_conflict("warning", "Classic protection locks the branch, whether it is frozen or not.")


def _queue(facts: BranchFacts, rules: Sequence[ActiveRule]) -> Iterator[Finding]:
    queue = _merge_queue(facts, rules)
    if queue is not None and not queue["reported"]:
        yield findings.QUEUE_NOT_VISIBLE


def _merge_queue(facts: BranchFacts, rules: Sequence[ActiveRule]) -> dict[str, Any] | None:
    queues = [rule for rule in rules if rule.type == "merge_queue"]
    if not queues and facts.queue_seen is not True:
        return None
    strategy = next((rule.grouping_strategy for rule in queues if rule.grouping_strategy), facts.queue_strategy)
    return {"groupingStrategy": strategy, "reported": facts.queue_seen is True}


def _relevant(facts: BranchFacts, noted: Sequence[Finding], best: _Requirement | None) -> list[Finding]:
    """Return the findings that matter for a branch that is not watched, or whose repository is archived."""
    if not facts.watched:
        return [findings.orphaned_requirement(best.check_name)] if best is not None else []
    if facts.archived:
        return [Finding(each.code, "warning", each.message) if each.severity == "critical" else each for each in noted]
    return list(noted)


def _others(facts: BranchFacts, rules: Sequence[ActiveRule]) -> Iterator[Finding]:
    """Yield findings about required checks of ours that are not written on this branch."""
    required = [check for rule in rules if rule.type == "required_status_checks" for check in rule.checks]
    for check in (*required, *(facts.classic.checks if facts.classic else ())):
        named = check.context.startswith(PREFIX) and not is_stop(check.context)
        ours = named and check.app_id in {None, facts.app_id}
        if ours and check.context not in facts.check_names and not facts.archived:
            yield findings.other_check_required(check.context)


def _infos(facts: BranchFacts) -> Iterator[Finding]:
    if facts.missing:
        yield findings.BRANCH_MISSING
    if facts.archived:
        yield findings.REPOSITORY_ARCHIVED


def _light(facts: BranchFacts, noted: Sequence[Finding]) -> Light:
    return light_of(noted) if facts.watched else "amber"


def _not_visible(facts: BranchFacts, before: Sequence[Finding]) -> Enforcement:
    """Return the last findings, and that the rules could not be read."""
    kept = [finding for finding in before if finding.code not in {"not_verified", "cannot_see_rules"}]
    noted = findings.worst_first([*kept, findings.CANNOT_SEE_RULES])
    return Enforcement(_light(facts, noted), False, False, None, (), None, None, None, None, noted, seen=False)


def covers(include: Sequence[str], exclude: Sequence[str], branch: str, default_branch: str) -> bool:
    """True if the `ref_name` condition of a ruleset matches a branch (`File.fnmatch` with `FNM_PATHNAME`)."""

    def matches(patterns: Sequence[str]) -> bool:
        return any(_matches(pattern, branch, default_branch) for pattern in patterns)

    return matches(include) and not matches(exclude)


def _matches(pattern: str, branch: str, default_branch: str) -> bool:
    if pattern == DEFAULT_BRANCH:
        return branch == default_branch
    return pattern == "~ALL" or _segments(pattern.split("/"), f"refs/heads/{branch}".split("/"))


def _segments(wanted: Sequence[str], actual: Sequence[str]) -> bool:
    """Match segment by segment, where `**` matches any number of them, in time proportional to both lengths."""
    places = {0}
    for index, pattern in enumerate(wanted):
        if pattern == "**" and index + 1 < len(wanted):
            places = set(range(min(places), len(actual) + 1)) if places else places
        else:
            places = {at + 1 for at in places if at < len(actual) and fnmatchcase(actual[at], pattern)}
    return len(actual) in places
