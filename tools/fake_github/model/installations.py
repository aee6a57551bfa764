"""The App's installations: who installed it where, and what it may do there."""

from tools.fake_github.model.identifiers import node_id
from tools.fake_github.model.records import Account, App, Installation, Repository
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.world import Actor, Event, World

PERMISSIONS = {
    "metadata": "read",
    "checks": "write",
    "statuses": "write",
    "contents": "read",
    "pull_requests": "read",
    "administration": "write",
    "organization_administration": "write",
    "merge_queues": "read",
    "members": "read",
}
EVENTS = [
    "branch_protection_rule",
    "check_run",
    "check_suite",
    "create",
    "delete",
    "label",
    "merge_group",
    "membership",
    "pull_request",
    "pull_request_review",
    "push",
    "repository",
    "repository_ruleset",
    "team",
]


def register_app(world: World, app_id: int, slug: str, public_key: str | None) -> App:
    """Register the App, or give it a new key."""
    app = world.apps.get(app_id)
    if app is None:
        owner = world.add_account("app-owner", "Organization")
        bot = world.add_account(f"{slug}[bot]", "Bot")
        app = App(app_id, node_id("A", app_id), slug, slug.replace("-", " ").title(), owner.id, bot.id, world.now())
        world.apps[app_id] = app
        world.nodes[app.node_id] = app
    app.public_key = public_key or app.public_key
    return app


def client_id_of(app_id: int) -> str:
    """Return the client id of an App, under which people authorise it."""
    return f"Iv23li{app_id:014d}"


def install(
    world: World,
    actor: Actor,
    app: App,
    account: Account,
    repositories: list[Repository] | None = None,
    *,
    permissions: dict[str, str] | None = None,
    installation_id: int | None = None,
) -> Installation:
    """Install the App in an account: on all its repositories, or on chosen ones."""
    if account.id in world.installed:
        raise Refusal(422, "The App is already installed in this account")
    now = world.now()
    installation = Installation(
        id=installation_id or world.next_id(),
        account_id=account.id,
        app_id=app.id,
        created_at=now,
        updated_at=now,
        permissions=dict(PERMISSIONS) if permissions is None else permissions,
        events=list(EVENTS),
        repository_selection="all" if repositories is None else "selected",
        repository_ids=[repository.id for repository in repositories or ()],
    )
    world.index_installation(installation)
    _announce(world, actor, installation, "created")
    return installation


def accessible(world: World, installation: Installation) -> list[Repository]:
    """List the repositories that an installation reaches."""
    owned = world.owned[installation.account_id]
    if installation.repository_selection == "all":
        return list(owned.values())
    return [owned[number] for number in installation.repository_ids if number in owned]


def reaches(installation: Installation, repository: Repository) -> bool:
    """Return whether an installation reaches a repository."""
    if installation.account_id != repository.owner_id:
        return False
    return installation.repository_selection == "all" or repository.id in installation.repository_ids


def uninstall(world: World, actor: Actor, installation: Installation) -> None:
    """Remove an installation; its tokens die with it."""
    _announce(world, actor, installation, "deleted")
    world.installations.pop(installation.id)
    world.installed.pop(installation.account_id)
    world.changes += 1


def suspend(world: World, actor: Actor, installation: Installation, *, suspended: bool) -> None:
    """Suspend an installation, or let it work again."""
    if bool(installation.suspended_at) != suspended:
        installation.suspended_at = world.now() if suspended else None
        _announce(world, actor, installation, "suspend" if suspended else "unsuspend")


def choose_repositories(
    world: World, actor: Actor, installation: Installation, repositories: list[Repository] | None
) -> None:
    """Choose what an installation reaches; None means everything."""
    before = {repository.id: repository for repository in accessible(world, installation)}
    installation.repository_selection = "all" if repositories is None else "selected"
    installation.repository_ids = [repository.id for repository in repositories or ()]
    installation.updated_at = world.now()
    after = {repository.id: repository for repository in accessible(world, installation)}
    added = [repository for number, repository in after.items() if number not in before]
    removed = [repository for number, repository in before.items() if number not in after]
    for action, changed in (("added", added), ("removed", removed)):
        if changed:
            facts = {
                "installation": installation,
                "added": added if action == "added" else [],
                "removed": removed if action == "removed" else [],
            }
            world.emit(Event("installation_repositories", action, actor.account, None, facts))


def accept_permissions(world: World, actor: Actor, installation: Installation, permissions: dict[str, str]) -> None:
    """Change what an installation may do."""
    installation.permissions, installation.updated_at = permissions, world.now()
    _announce(world, actor, installation, "new_permissions_accepted")


def _announce(world: World, actor: Actor, installation: Installation, action: str) -> None:
    facts = {"installation": installation, "repositories": accessible(world, installation)}
    world.emit(Event("installation", action, actor.account, None, facts))
