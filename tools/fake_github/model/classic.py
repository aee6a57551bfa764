"""Classic branch protection, as far as status checks, administrators and locking go: one rule for one branch.

Classic protection binds administrators only if configured. Apps are none.
"""

from collections.abc import Iterator
from typing import Any

from tools.fake_github.model.identifiers import node_id
from tools.fake_github.model.records import BranchProtection, Repository
from tools.fake_github.model.refusals import Refusal, invalid_request
from tools.fake_github.model.roles import has_level
from tools.fake_github.model.world import Actor, Event, World

REQUIRED = ("required_status_checks", "enforce_admins", "required_pull_request_reviews", "restrictions")


def find_protection(world: World, repository: Repository, branch: str) -> BranchProtection | None:
    """Return the protection of a branch."""
    return world.protections.get((repository.id, branch))


def binding_protection(world: World, actor: Actor, repository: Repository, branch: str) -> BranchProtection | None:
    """Return the protection of a branch, unless the actor is an administrator whom it does not bind."""
    found = find_protection(world, repository, branch)
    if found is None or found.enforce_admins or not actor.bypassing:
        return found
    return None if has_level(world, actor, repository, "admin") else found


def classic_checks(protection: BranchProtection | None) -> Iterator[tuple[str, int | None]]:
    """Yield what a protection requires, as (context, App)."""
    for check in protection.checks if protection and protection.requires_checks else ():
        yield check["context"], check["app_id"]


def protect(world: World, actor: Actor, repository: Repository, branch: str, body: dict[str, Any]) -> BranchProtection:
    """Protect a branch, or replace its protection; the branch has to exist."""
    if branch not in repository.branches:
        raise Refusal(404, "Branch not found")
    for name in REQUIRED:
        if name not in body:
            raise invalid_request(f'"{name}" wasn\'t supplied.')
    found = find_protection(world, repository, branch)
    action = "created" if found is None else "edited"
    if found is None:
        number = world.next_id()
        found = BranchProtection(number, node_id("BPR", number), repository.id, branch, world.now(), world.now())
    wanted = body["required_status_checks"]
    found.requires_checks, found.strict = wanted is not None, bool((wanted or {}).get("strict"))
    found.checks = _checks(wanted or {})
    found.enforce_admins = body["enforce_admins"] is True
    found.locked = body.get("lock_branch") is True
    found.updated_at = world.now()
    world.index_protection(found)
    _announce(world, actor, repository, found, action)
    return found


def _checks(wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """Read `checks`, or the older `contexts`; no App, or -1, takes a check from anybody."""
    given = wanted.get("checks")
    if given is None:
        given = [{"context": context} for context in wanted.get("contexts", [])]
    if not all(isinstance(check, dict) and check.get("context") for check in given):
        raise invalid_request("Invalid required status checks.")
    return [
        {"context": check["context"], "app_id": check["app_id"] if (check.get("app_id") or -1) > 0 else None}
        for check in given
    ]


def _announce(world: World, actor: Actor, repository: Repository, protection: BranchProtection, action: str) -> None:
    facts = {"protection": protection, **({"changes": {}} if action == "edited" else {})}
    world.emit(Event("branch_protection_rule", action, actor.account, repository, facts))
