"""What probes read: from what GitHub shows to the facts that `rules.rulesets.enforcement` evaluates."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from integrations.github import BranchRef, GitHubError, InstallationClient
from integrations.github.rules import BranchRules, RulesetDetails
from rules.batches import batches
from rules.rulesets.enforcement import DEFAULT_BRANCH, ActiveRule, BranchFacts, RequiredCheck, Ruleset, covers
from services.enforcement.probe_queue import LeasedProbe
from services.github_access.concurrency import in_parallel

RULESETS_PER_QUERY = 100
ProbedRules = Sequence[tuple[LeasedProbe, BranchRules]]
"""Branches, each with what GitHub shows of its rules."""


def read_rules(client: InstallationClient, probes: Sequence[LeasedProbe]) -> list[tuple[LeasedProbe, BranchRules]]:
    """Read the rules of up to one query's worth of branches."""
    refs = [BranchRef(probe.repository_node_id, probe.branch) for probe in probes]
    return list(zip(probes, client.rules(refs), strict=True))


def read_details(
    client: InstallationClient, read: ProbedRules, *, concurrently: bool = False
) -> Mapping[str, RulesetDetails]:
    """Read the rulesets that decide: those that require our checks, and those that would if they were active."""
    wanted = list(dict.fromkeys(node_id for probe, found in read for node_id in _deciding(probe, found)))
    if not concurrently:
        return client.ruleset_details(wanted) if wanted else {}
    found: dict[str, RulesetDetails] = {}
    for details in in_parallel(client.ruleset_details, batches(wanted, RULESETS_PER_QUERY)):
        found |= details
    return found


def _deciding(probe: LeasedProbe, found: BranchRules) -> Iterable[str]:
    """Yield the node ids of the rulesets of a branch whose details decide, as far as they are not known."""
    requiring = [rule.ruleset for rule in found.rules or () if _requires(rule, probe)]
    if requiring or found.rules is None:
        for ruleset in requiring:
            node_id = found.node_ids.get(ruleset.id or 0) if ruleset is not None else None
            if node_id is not None and ruleset is not None and ruleset.bypass_actors is None:
                yield node_id
        return
    yield from (node_id for node_id, _ruleset in _inactive(probe, found))


def _requires(rule: ActiveRule, probe: LeasedProbe) -> bool:
    return any(check.context in probe.check_names for check in rule.checks)


def _inactive(probe: LeasedProbe, found: BranchRules) -> Iterable[tuple[str, Ruleset]]:
    """Yield the rulesets that are not active and whose conditions match the branch, with their node ids."""
    default_branch = found.repository.default_branch if found.repository else ""
    for each in found.listed:
        if each.ruleset.enforcement != "active" and covers(each.include, each.exclude, probe.branch, default_branch):
            yield each.node_id, each.ruleset


def facts_of(
    probe: LeasedProbe,
    found: BranchRules,
    details: Mapping[str, RulesetDetails],
    permissions: Mapping[str, str],
    app_id: int,
) -> BranchFacts | GitHubError:
    """Return the facts of a branch, or the error if it can be retried."""
    if found.rules is None and found.error is not None and found.error.transient:
        return found.error
    inactive = [
        ruleset
        for node_id, ruleset in _inactive(probe, found)
        if any(check.context in probe.check_names for check in _checks(details.get(node_id)))
    ]
    return BranchFacts(
        check_name=probe.check_name,
        app_id=app_id,
        rules=None if found.rules is None else tuple(_detailed(rule, probe, found, details) for rule in found.rules),
        inactive=tuple(inactive),
        classic=found.classic,
        classic_seen=found.classic_seen,
        queue_seen=found.queue_seen,
        queue_strategy=found.queue_strategy,
        watched=probe.watched,
        archived=found.repository is not None and found.repository.archived,
        missing=found.repository is not None and not found.exists,
        permissions=permissions,
        pattern_check_name=probe.pattern_check_name,
        closable=probe.authorized and permissions.get("administration") == "write",
    )


def _checks(details: RulesetDetails | None) -> Iterable[RequiredCheck]:
    return () if details is None else details.checks or ()


def _detailed(
    rule: ActiveRule, probe: LeasedProbe, found: BranchRules, details: Mapping[str, RulesetDetails]
) -> ActiveRule:
    """Return a rule whose ruleset has its bypass actors, and says whether it applies only to the default branch."""
    if rule.ruleset is None or rule.ruleset.id is None:
        return rule
    ruleset = replace(rule.ruleset, by_default_branch=_names_default_branch(rule.ruleset.id, probe, found))
    known = details.get(found.node_ids.get(rule.ruleset.id, ""))
    if known is not None and known.bypass_actors is not None:
        ruleset = replace(ruleset, bypass_actors=known.bypass_actors)
    return replace(rule, ruleset=ruleset)


def _names_default_branch(ruleset_id: int, probe: LeasedProbe, found: BranchRules) -> bool:
    """True if the conditions of a ruleset match the branch only because it is the default branch."""
    listed = next((each for each in found.listed if each.ruleset.id == ruleset_id), None)
    default_branch = found.repository.default_branch if found.repository else ""
    if listed is None or not covers(listed.include, listed.exclude, probe.branch, default_branch):
        return False
    return not covers([each for each in listed.include if each != DEFAULT_BRANCH], (), probe.branch, "")
