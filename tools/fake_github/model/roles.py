"""What people may do: their level in a repository, and whether they own an organisation.

A person without rights of their own may do everything, as `maintainer` does; with rights they may do what these say.
"""

from tools.fake_github.model.records import Account, Repository
from tools.fake_github.model.world import Actor, World

LEVELS = ("pull", "triage", "push", "maintain", "admin")


def level_of(world: World, account: Account, repository: Repository) -> str | None:
    """Return what a person may do in a repository; None: they do not see it."""
    own = world.rights.get(account.login.lower())
    if own is None:
        return "admin"
    if own.get(world.owner(repository).login.lower()) == "admin":
        return "admin"
    return own.get(world.full_name(repository).lower())


def is_owner(world: World, account: Account, organization: Account) -> bool:
    """Return whether a person owns an organisation."""
    own = world.rights.get(account.login.lower())
    return own is None or own.get(organization.login.lower()) == "admin"


def has_level(world: World, actor: Actor, repository: Repository, level: str) -> bool:
    """Return whether the actor is a person with at least this level in a repository."""
    if actor.app_id is not None:
        return False
    found = actor.standing.level if actor.standing else level_of(world, actor.account, repository)
    return found in LEVELS and LEVELS.index(found) >= LEVELS.index(level)


def owns(world: World, actor: Actor, repository: Repository) -> bool:
    """Return whether the actor is a person who owns the organisation of a repository."""
    if actor.app_id is not None:
        return False
    if actor.standing is not None:
        return actor.standing.owner
    return is_owner(world, actor.account, world.owner(repository))
