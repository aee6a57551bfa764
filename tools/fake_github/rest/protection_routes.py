"""Classic branch protection."""

from tools.fake_github.model import classic
from tools.fake_github.payloads.protections import protection_json
from tools.fake_github.rest.routing import Call, route
from tools.simulation.answers import Answer

PROTECTION = "/repos/{owner}/{repo}/branches/{branch*}/protection"


@route("PUT", PROTECTION, "administration:write")
def update_branch_protection(call: Call) -> Answer:
    """Protect a branch, or replace its protection."""
    found = classic.protect(call.world, call.actor, call.repository, call.params["branch"], call.body)
    return Answer(200, protection_json(call.view, call.repository, found))
