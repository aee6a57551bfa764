"""Classic branch protection."""

from tools.fake_github.model import classic
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.payloads.protections import protection_json
from tools.fake_github.rest.routing import Call, route
from tools.simulation.answers import Answer

PROTECTION = "/repos/{owner}/{repo}/branches/{branch*}/protection"


@route("GET", PROTECTION, "administration:read")
def get_branch_protection(call: Call) -> Answer:
    """Show the protection of a branch."""
    if call.params["branch"] not in call.repository.branches:
        raise Refusal(404, "Branch not found")
    found = classic.find_protection(call.world, call.repository, call.params["branch"])
    if found is None:
        raise Refusal(404, "Branch not protected")
    return Answer(200, protection_json(call.view, call.repository, found))


@route("PUT", PROTECTION, "administration:write")
def update_branch_protection(call: Call) -> Answer:
    """Protect a branch, or replace its protection."""
    found = classic.protect(call.world, call.actor, call.repository, call.params["branch"], call.body)
    return Answer(200, protection_json(call.view, call.repository, found))


@route("DELETE", PROTECTION, "administration:write")
def delete_branch_protection(call: Call) -> Answer:
    """Remove the protection of a branch."""
    classic.unprotect(call.world, call.actor, call.repository, call.params["branch"])
    return Answer(204)
