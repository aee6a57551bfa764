"""Teams of organisations and their members."""

from tools.fake_github.model.records import Account
from tools.fake_github.model.world import Actor, Event, World


def set_members(world: World, actor: Actor, organization: Account, slug: str, logins: list[str]) -> int:
    """Give a team these members, make it if it is not there, and announce who came and who left; return its id."""
    key = f"{organization.login}/{slug}".lower()
    number = world.team_slugs.setdefault(key, world.next_id())
    before, after = world.teams.get(number, []), [world.add_account(each, "User").login.lower() for each in logins]
    world.teams[number] = after
    world.changes += 1
    for action, changed in (("added", set(after) - set(before)), ("removed", set(before) - set(after))):
        for login in sorted(changed):
            facts = {"organization": organization.id, "member": world.logins[login], "team": number, "slug": slug}
            world.emit(Event("membership", action, actor.account, None, facts))
    return number


def delete_team(world: World, organization: Account, slug: str) -> None:
    """Delete a team."""
    world.teams.pop(world.team_slugs.pop(f"{organization.login}/{slug}".lower()))
    world.changes += 1
