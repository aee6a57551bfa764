"""Renaming a branch: who may, what the rules say of it, and what follows.

From GitHub's documentation ("Renaming a branch", REST "Rename a branch"): who can write renames a branch, only
administrators the default branch and one with classic protection; an App needs `administration:write` for those. Pull
requests into the branch, classic protection and the default branch follow; pull requests from it are closed.

From "Allowing repository admins to rename branches with organization rulesets": a branch that an organisation's ruleset
targets is renamed by owners of the organisation without restriction, and by administrators of the repository only if
the organisation allows it (by default only a new one does), as long as all those rulesets target the new name too, or
the administrator bypasses those that do not.

Not confirmed: that a rename needs what deleting the old name and creating the new one need, as it does here (people
reported only that rules kept them from renaming to a name); that "without restriction" means those rules of the
organisation too; that a ruleset of the repository does not make its branches "protected"; that an App counts as an
administrator by its permission; and the words of the refusals.
"""

from dataclasses import replace

from tools.fake_github.model import branches, pulls
from tools.fake_github.model.bypass import bypasses
from tools.fake_github.model.classic import find_protection
from tools.fake_github.model.enforcement import rules_in_force
from tools.fake_github.model.protection import deletion_violations, push_violations, refuse
from tools.fake_github.model.records import Repository, Ruleset
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.repositories import set_default_branch
from tools.fake_github.model.roles import has_level, owns, refuse_changes
from tools.fake_github.model.rulesets import covers_branch
from tools.fake_github.model.world import Actor, Event, World

DOCUMENTATION = "https://docs.github.com/rest/branches/branches#rename-a-branch"


def rename_branch(world: World, actor: Actor, repository: Repository, name: str, new: str) -> None:
    """Give a branch another name; what names it follows, and pull requests from it are closed."""
    refuse_rename(world, actor, repository, name, new)
    sha = repository.branches[new] = repository.branches[name]
    world.emit(Event("create", None, actor.account, repository, {"branch": new}))
    branches.announce_push(world, actor, repository, new, (branches.ZERO, sha), "branch_creation")
    for pull in list(world.open_into[repository.id, name].values()):
        pulls.edit(world, actor, repository, pull, base=new)
    _move_protection(world, actor, repository, name, new)
    del repository.branches[name]
    world.emit(Event("delete", None, actor.account, repository, {"branch": name}))
    branches.announce_push(world, actor, repository, name, (sha, branches.ZERO), "branch_deletion")
    for pull in list(world.open_from[repository.id, name].values()):
        pulls.close(world, actor, repository, pull)
    if repository.default_branch == name:
        set_default_branch(world, actor, repository, new)


def refuse_rename(
    world: World, actor: Actor, repository: Repository, name: str, new: str, *, deleted: bool = False
) -> None:
    """Raise what GitHub answers if a branch cannot be renamed now; `deleted`: if the new name were free."""
    refuse_changes(world, actor, repository)
    if branches.FORBIDDEN_NAME.search(new) or not new or (new in repository.branches and not deleted):
        raise Refusal(422, "Validation Failed", ["New branch name is invalid or taken"])
    if name not in repository.branches:
        raise Refusal(404, "Branch not found", documentation=DOCUMENTATION)
    is_protected = name == repository.default_branch or find_protection(world, repository, name) is not None
    if is_protected and not _administers(world, actor, repository):
        raise Refusal(403, "Must have admin rights to Repository.", documentation=DOCUMENTATION)
    _refuse_by_organization(world, actor, repository, name, new)
    free = replace(actor, bypasses_organization=owns(world, actor, repository))
    found = deletion_violations(world, free, repository, name)
    found += push_violations(world, free, repository, new, repository.branches[name], creating=True)
    refuse(found, 422, DOCUMENTATION)


def _administers(world: World, actor: Actor, repository: Repository) -> bool:
    """Return whether the actor is an administrator of the repository, or an App that may administer it."""
    if actor.installation is not None:
        return actor.installation.permissions.get("administration") == "write"
    return has_level(world, actor, repository, "admin")


def _refuse_by_organization(world: World, actor: Actor, repository: Repository, name: str, new: str) -> None:
    """Raise what GitHub answers if rulesets of the organisation keep the actor from renaming a branch."""
    above = _rulesets_above(world, repository, name)
    if not above or owns(world, actor, repository):
        return
    left = [
        ruleset
        for ruleset in above
        if not covers_branch(ruleset, new, new if name == repository.default_branch else repository.default_branch)
        and not bypasses(world, ruleset, actor, repository, through_pull_request=False)
    ]
    allowed = _administers(world, actor, repository) and world.owner(repository).administrators_rename
    if left or not allowed:
        raise Refusal(403, "This branch is protected by organization rulesets.", documentation=DOCUMENTATION)


def _rulesets_above(world: World, repository: Repository, branch: str) -> list[Ruleset]:
    """List the organisation's rulesets that apply to a branch."""
    found = {ruleset.id: ruleset for ruleset, _ in rules_in_force(world, repository, branch)}
    return [ruleset for ruleset in found.values() if ruleset.source_type == "Organization"]


def _move_protection(world: World, actor: Actor, repository: Repository, name: str, new: str) -> None:
    """Let classic protection follow its branch."""
    found = world.protections.pop((repository.id, name), None)
    if found is not None:
        found.branch = new
        world.index_protection(found)
        world.emit(
            Event("branch_protection_rule", "edited", actor.account, repository, {"protection": found, "changes": {}})
        )
