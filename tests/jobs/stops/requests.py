"""Stops in tests: do what is due, and ask GitHub what it would accept."""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from typing import Any

from rules.freezes.check_names import is_stop
from rules.rate_budget import GitHubLimits
from rules.rulesets.frozen_branches import NAME
from services.enforcement.stops import stop_due
from tests.harness.blocking_surfaces import ways_in
from tests.harness.github_harness import Harness
from tools.fake_github.model.records import Ruleset

RULESET_DELAY = timedelta(seconds=20)
FEW = 3
"""How many repositories have stops of their own, and not one of their organisation (`GitHubLimits.shared_above`)."""
MANY = ("web", *(f"service-{number}" for number in range(1, FEW + 2)))
"""Names of two repositories more than these."""
MORE = tuple(f"more-{number}" for number in range(FEW + 1))
"""Names of others, one more than these."""


def stop_from(harness: Harness, heads: int = 0, delay: timedelta = timedelta(0), shared_above: int = FEW) -> None:
    """Have every freeze stopped that has more heads than this, at a GitHub that enforces rulesets after `delay`.

    More repositories than `shared_above` leave their stop to their organisation.
    """
    former = harness.jobs.ports[GitHubLimits]
    limits = replace(former, stop_above=heads, shared_above=shared_above, ruleset_delay=delay)
    for units in (harness.jobs, harness.uow_factory):
        units.ports = units.ports.having(limits)


def stop(harness: Harness) -> int:
    """Do what is due for stops until nothing is; return how many steps it took."""
    steps = 0
    while stop_due(harness.jobs, harness.github):
        steps += 1
        assert steps < 100, "stops do not come to rest"
    return steps


def settle(harness: Harness) -> None:
    """Do all that is due, also what is due in some seconds."""
    for _ in range(6):
        harness.run_until_idle()
        stop(harness)
        harness.pass_time(seconds=6)
    harness.read_rules()


def required(harness: Harness, repository: str = "web") -> list[str]:
    """Return the contexts of stops that active rulesets of a repository require, at GitHub; of acme's, or by owner."""
    full_name = repository if "/" in repository else f"acme/{repository}"
    record = harness.record(full_name)
    found = harness.fake_github.world.rules_of.get(("Repository", record.id), {}).values()
    return [context for ruleset in found if ruleset.enforcement == "active" for context in contexts(ruleset)]


def contexts(ruleset: Ruleset) -> list[str]:
    checks = [
        check["context"]
        for rule in ruleset.rules
        if rule["type"] == "required_status_checks"
        for check in rule["parameters"]["required_status_checks"]
    ]
    return [context for context in checks if is_stop(context)]


def ours(harness: Harness) -> Ruleset:
    """Return the only ruleset of frozen branches."""
    [found] = [each for each in harness.fake_github.world.rulesets.values() if each.name == NAME]
    return found


def above(harness: Harness) -> list[Ruleset]:
    """Return the rulesets of the organisation that are for stops."""
    account = harness.fake_github.organization("acme").account.id
    found = harness.fake_github.world.rules_of.get(("Organization", account), {}).values()
    return [ruleset for ruleset in found if ruleset.name.startswith(NAME)]


def required_above(harness: Harness) -> list[str]:
    """Return the contexts of stops that active rulesets of the organisation require."""
    return [context for each in above(harness) if each.enforcement == "active" for context in contexts(each)]


def open_repositories(harness: Harness, branch: str = "main") -> list[str]:
    """Return those of the many repositories in which something could enter a branch, by a merge or a push."""
    return [name for name in MANY if ways(harness, branch, name) & {"merge", "push"}]


def ways(harness: Harness, branch: str = "main", repository: str = "web") -> set[str]:
    """Return the ways in which something could enter a branch at GitHub now."""
    record = harness.fake_github.organization("acme").repository(repository).record
    return {way.way for way in ways_in(harness, record.id, branch)}


def times(harness: Harness) -> Any:
    """Return since when the only freeze is blocked, and since when enforced."""
    [found] = harness.sql("SELECT blocked_at, enforced_at FROM freezes")
    return found


def audited(harness: Harness) -> list[Any]:
    """Return what the audit says of blocking: the actions, with since when the freeze was blocked."""
    rows = harness.sql(
        "SELECT action, (details ->> 'blockedAt')::timestamptz FROM audit_entries "
        "WHERE action IN ('freeze.blocked', 'freeze.enforced', 'freeze.unprotected') ORDER BY id"
    )
    return [tuple(row) for row in rows]


def released_at(harness: Harness) -> Any:
    """Return since when the only freeze that has ended is released."""
    [(found,)] = harness.sql("SELECT released_at FROM freezes WHERE ended_at IS NOT NULL")
    return found


def branch(harness: Harness, name: str = "main") -> dict[str, Any]:
    """Return the scope of a freeze of one branch."""
    return {"type": "branch", "branchId": harness.branches[f"acme/web:{name}"].id}


def within(harness: Harness, names: Collection[str], branch: str = "main") -> dict[str, Any]:
    """Return the scope of a freeze of one branch of these repositories, and of no other that may come."""
    ids = [harness.branches[f"acme/{name}:main"].repository_id for name in names]
    return {"type": "repositories", "repositories": ids, "branches": [branch]}


def on(*branches: str) -> dict[str, Any]:
    """Return the scope of a freeze of these branches of all repositories."""
    return {"type": "organization", "branches": list(branches)}
