"""Teams of organisations and their members."""

from tools.fake_github.model.records import Account
from tools.fake_github.model.world import Actor, Event, World


def set_members(world: World, actor: Actor, organization: Account, slug: str, logins: list[str]) -> int:
    """Give a team these members, make it if it is not there, and announce who came and who left; return its id."""
    number = find_team(world, organization, slug)
    if number is None:
        number = world.team_slugs[_key(organization, slug)] = world.next_id()
        _announce(world, actor, organization, number, slug, "created")
    before, after = world.teams.get(number, []), [world.add_account(each, "User").login.lower() for each in logins]
    world.teams[number] = after
    world.changes += 1
    for action, changed in (("added", set(after) - set(before)), ("removed", set(before) - set(after))):
        for login in sorted(changed):
            facts = {"organization": organization.id, "member": world.logins[login], "team": number, "slug": slug}
            world.emit(Event("membership", action, actor.account, None, facts))
    return number


def find_team(world: World, organization: Account, slug: str) -> int | None:
    """Return the id of a team, by its name."""
    return world.team_slugs.get(_key(organization, slug))


def belongs(world: World, team: int, organization: Account) -> bool:
    """True if a team is one of an organisation's."""
    prefix = _key(organization, "")
    return any(number == team and key.startswith(prefix) for key, number in world.team_slugs.items())


def delete_team(world: World, actor: Actor, organization: Account, slug: str) -> None:
    """Delete a team."""
    number = world.team_slugs.pop(_key(organization, slug))
    del world.teams[number]
    _announce(world, actor, organization, number, slug, "deleted")


def _key(organization: Account, slug: str) -> str:
    return f"{organization.login}/{slug}".lower()


def _announce(
    world: World, actor: Actor, organization: Account, number: int, slug: str, action: str, **facts: object
) -> None:
    named = {"organization": organization.id, "team": number, "slug": slug, **facts}
    world.emit(Event("team", action, actor.account, None, named))
