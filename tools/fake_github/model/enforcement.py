"""The rules that GitHub enforces now, which may lag behind those that it shows.

A changed ruleset is shown at once. It is enforced after a delay (the setting `rulesetDelaySeconds`, and `rulesetDelays`
by repository), by the world's clock; until then what was there before is enforced. GitHub does not document a delay:
people report some 20 seconds. Changes that wait are not in the state file: a restart enforces them.
"""

from datetime import timedelta

from tools.fake_github.model.records import Repository, Ruleset
from tools.fake_github.model.rulesets import (
    Applied,
    active_rules,
    covers_repository,
    is_over,
    rules_for_branch,
    rulesets_over,
)
from tools.fake_github.model.world import World


def rulesets_in_force(world: World, repository: Repository) -> list[Ruleset]:
    """List the rulesets that are enforced in a repository, from every level."""
    former = _former(world, repository)
    kept = [ruleset for ruleset in rulesets_over(world, repository) if ruleset.id not in former]
    returned = [ruleset for ruleset in former.values() if ruleset is not None and is_over(ruleset, repository)]
    return kept + [ruleset for ruleset in returned if covers_repository(ruleset, repository)]


def rules_in_force(world: World, repository: Repository, branch: str) -> list[Applied]:
    """List the rules that are enforced on a branch, which need not exist."""
    if not _former(world, repository):
        return rules_for_branch(world, repository, branch)
    return active_rules(rulesets_in_force(world, repository), repository, branch)


def _former(world: World, repository: Repository) -> dict[int, Ruleset | None]:
    """Return the rulesets whose change is not enforced in a repository yet, as they were; None: there was none."""
    delay = world.ruleset_delay(repository) if world.ruleset_changes else 0
    if not delay:
        return {}
    enforced = world.clock() - timedelta(seconds=delay)
    found: dict[int, Ruleset | None] = {}
    for at, number, former in world.ruleset_changes:
        if at > enforced:
            found.setdefault(number, former)
    return found
