"""Who passes a ruleset by its bypass list.

The ids of the built-in roles are those that GitHub gives out; its documentation does not list them. Not confirmed:
that an entry of a role counts for the roles above it too, as it does here. An entry of mode `exempt` lets its actor
pass wherever `always` does. Custom roles, and deploy keys, are nobody's here.
"""

from typing import Any

from tools.fake_github.model.records import Repository, Ruleset
from tools.fake_github.model.roles import has_level, owns
from tools.fake_github.model.world import Actor, World

ROLES = {5: "admin", 2: "maintain", 4: "push"}


def bypasses(
    world: World, ruleset: Ruleset, actor: Actor, repository: Repository, *, through_pull_request: bool
) -> bool:
    """Return whether the ruleset's bypass list lets the actor pass in a repository."""
    if not actor.bypassing:
        return False
    if actor.bypasses_organization and ruleset.source_type == "Organization":
        return True
    return any(
        _names(world, entry, actor, repository)
        for entry in ruleset.bypass_actors
        if through_pull_request or entry.get("bypass_mode", "always") != "pull_request"
    )


def _names(world: World, entry: dict[str, Any], actor: Actor, repository: Repository) -> bool:
    """Return whether an entry of a bypass list names the actor."""
    kind, number = entry["actor_type"], entry.get("actor_id")
    if actor.app_id is not None:
        return bool(kind == "Integration" and number == actor.app_id)
    if kind == "User":
        return bool(number == actor.account.id)
    if kind == "Team":
        return actor.account.login.lower() in world.teams.get(number or 0, ())
    if kind == "RepositoryRole":
        return number in ROLES and has_level(world, actor, repository, ROLES[number])
    return bool(kind == "OrganizationAdmin") and owns(world, actor, repository)
