"""What people may do: their level in a repository, and whether they own an organisation.

A person without rights of their own may do everything, as `maintainer` does; with rights they may do what these say.
Only who can write changes anything in a repository.
"""

from tools.fake_github.model.records import Account, Repository
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.world import Actor, World

LEVELS = ("pull", "triage", "push", "maintain", "admin")
LEVEL_OF_ROLE = {"read": "pull", "write": "push"}
"""GitHub's newer words for two levels."""


def give(world: World, login: str, place: str, role: str) -> Account:
    """Give a person a role in a repository (`owner/name`) or an account, whose `admin` is its owner; add the person.

    From then on they have no rights but those that they were given.
    """
    world.rights.setdefault(login.lower(), {})[place.lower()] = level_named(role)
    return world.add_account(login, "User")


def level_named(role: str) -> str:
    """Return the level of a role. Raise ValueError if there is none of that name."""
    level = LEVEL_OF_ROLE.get(role, role)
    if level not in LEVELS:
        raise ValueError(f"unknown role {role}")
    return level


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
    owner = world.owner(repository)
    if owner.type != "Organization":
        return False
    return actor.standing.owner if actor.standing else is_owner(world, actor.account, owner)


def refuse_changes(world: World, actor: Actor, repository: Repository) -> None:
    """Raise what GitHub answers to a change if the repository is archived, or to a person who cannot write."""
    if repository.archived:
        raise Refusal(403, "Repository was archived so is read-only.")
    if actor.app_id is None and not has_level(world, actor, repository, "push"):
        raise Refusal(403, "Must have push access to Repository.")  # GitHub documents the status, not the words
