"""Organisations' repositories: creating, renaming, transferring, archiving, deleting."""

import re

from tools.fake_github.model.branches import make_commit
from tools.fake_github.model.identifiers import node_id
from tools.fake_github.model.records import Account, Repository
from tools.fake_github.model.refusals import validation_failed
from tools.fake_github.model.roles import owns
from tools.fake_github.model.rulesets import rulesets_over
from tools.fake_github.model.world import Actor, Event, World

NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


def add_repository(
    world: World,
    owner: Account,
    name: str,
    author_id: int | None = None,
    default_branch: str = "main",
    branches: tuple[str, ...] = (),
    *,
    private: bool = True,
) -> Repository:
    """Add a repository with one commit on its branches, without webhooks."""
    if not NAME.fullmatch(name) or f"{owner.login}/{name}".lower() in world.full_names:
        raise validation_failed("Repository", "name", message="name already exists on this account")
    number, now = world.next_id(), world.now()
    repository = Repository(number, node_id("R", number), owner.id, name, now, now, now, default_branch, private)
    first = make_commit(world, repository, author_id or owner.id, "Initial commit", [])
    for branch in dict.fromkeys((default_branch, *branches)):
        repository.branches[branch] = first.sha
    world.moved.pop(f"{owner.login}/{name}".lower(), None)
    world.index_repository(repository)
    world.rules_version += 1
    return repository


def create_repository(world: World, actor: Actor, owner: Account, name: str, *, private: bool = True) -> Repository:
    """Create a repository as a person does."""
    repository = add_repository(world, owner, name, actor.account.id, private=private)
    _announce(world, actor, repository, "created")
    added = [repository]
    installation = world.installed.get(owner.id)
    if installation and installation.repository_selection == "all":
        facts = {"installation": installation, "added": added, "removed": []}
        world.emit(Event("installation_repositories", "added", actor.account, None, facts))
    return repository


def rename(world: World, actor: Actor, repository: Repository, name: str) -> None:
    """Give a repository another name; its old one leads to it."""
    old = world.full_name(repository)
    new = f"{world.owner(repository).login}/{name}"
    if not NAME.fullmatch(name) or (new.lower() in world.full_names and new.lower() != old.lower()):
        raise validation_failed("Repository", "name", message="name already exists on this account")
    former = repository.name
    _move_name(world, repository, old, lambda: setattr(repository, "name", name))
    _announce(world, actor, repository, "renamed", changes={"repository": {"name": {"from": former}}})


def transfer(world: World, actor: Actor, repository: Repository, owner: Account, name: str | None = None) -> None:
    """Hand a repository to another account; only the new owner's installation gets a webhook."""
    old, former = world.full_name(repository), world.owner(repository)
    if f"{owner.login}/{name or repository.name}".lower() in world.full_names:
        raise validation_failed("Repository", "name", message="Repository has already been taken")
    leaving, arriving = world.installed.get(former.id), world.installed.get(owner.id)

    def change() -> None:
        world.owned[former.id].pop(repository.id)
        repository.owner_id, repository.name = owner.id, name or repository.name
        world.owned[owner.id][repository.id] = repository

    _move_name(world, repository, old, change)
    if leaving and repository.id in leaving.repository_ids:
        leaving.repository_ids.remove(repository.id)
    if leaving:
        facts = {"installation": leaving, "added": [], "removed": [repository]}
        world.emit(Event("installation_repositories", "removed", actor.account, None, facts))
    key = "user" if former.type == "User" else "organization"
    _announce(world, actor, repository, "transferred", changes={"owner": {"from": {key: former}}})
    if arriving and arriving.repository_selection == "all":
        facts = {"installation": arriving, "added": [repository], "removed": []}
        world.emit(Event("installation_repositories", "added", actor.account, None, facts))


def set_default_branch(world: World, actor: Actor, repository: Repository, branch: str) -> None:
    """Choose another default branch."""
    if branch not in repository.branches:
        raise validation_failed("Repository", "default_branch", message=f"The branch {branch} was not found.")
    former = repository.default_branch
    if former != branch:
        repository.default_branch = branch
        _touch(world, repository)
        _announce(world, actor, repository, "edited", changes={"default_branch": {"from": former}})


def refuse_default_branch(world: World, actor: Actor, repository: Repository) -> None:
    """Raise what GitHub answers to an administrator who is no owner, if rulesets of the organisation apply here.

    Documented in "Managing rulesets for repositories in your organization", without the words. An App is not kept from
    it here; that is not confirmed.
    """
    if actor.app_id is not None or owns(world, actor, repository):
        return
    for ruleset in rulesets_over(world, repository):
        if ruleset.source_type == "Organization" and ruleset.target == "branch" and ruleset.enforcement == "active":
            raise validation_failed("Repository", "default_branch", message="Protected by organization rulesets.")


def set_archived(world: World, actor: Actor, repository: Repository, *, archived: bool) -> None:
    """Archive a repository or take it back."""
    if repository.archived != archived:
        repository.archived = archived
        _touch(world, repository)
        _announce(world, actor, repository, "archived" if archived else "unarchived")


def delete(world: World, actor: Actor, repository: Repository) -> None:
    """Delete a repository with everything in it."""
    _announce(world, actor, repository, "deleted")
    world.full_names.pop(world.full_name(repository).lower())
    world.owned[repository.owner_id].pop(repository.id)
    world.repositories.pop(repository.id)
    for installation in world.installations.values():
        if repository.id in installation.repository_ids:
            installation.repository_ids.remove(repository.id)
    world.nodes.pop(repository.node_id)
    for pull in repository.pulls.values():
        world.unindex_pull(pull)
        world.nodes.pop(pull.node_id, None)
    for ruleset in list(world.rules_of.pop(("Repository", repository.id), {}).values()):
        world.rulesets.pop(ruleset.id)
        world.nodes.pop(ruleset.node_id)
    for place in [place for place in world.protections if place[0] == repository.id]:
        world.protections.pop(place)
    for index in (world.queues, world.groups):
        for key in [key for key in index if key[0] == repository.id]:
            index.pop(key)
    world.rules_version += 1


def _move_name(world: World, repository: Repository, old: str, change: object) -> None:
    world.full_names.pop(old.lower())
    change()  # type: ignore[operator]
    new = world.full_name(repository).lower()
    world.moved.pop(new, None)
    if new != old.lower():
        world.moved[old.lower()] = repository.id
    world.full_names[new] = repository
    _touch(world, repository)


def _touch(world: World, repository: Repository) -> None:
    repository.updated_at = world.now()
    world.rules_version += 1


def _announce(world: World, actor: Actor, repository: Repository, action: str, **facts: object) -> None:
    world.emit(Event("repository", action, actor.account, repository, dict(facts)))
