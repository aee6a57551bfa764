"""Repositories."""

from tools.fake_github.model import repositories
from tools.fake_github.model.refusals import Refusal, not_found
from tools.fake_github.payloads.accounts import collaborator_json
from tools.fake_github.payloads.repositories import repository_json
from tools.fake_github.rest.routing import Call, route
from tools.simulation.answers import Answer

ROLES = {"pull": "read", "push": "write"}
PERMISSIONS = {"triage": "read", "maintain": "write"}


@route("GET", "/repos/{owner}/{repo}", "metadata:read")
def get_repository(call: Call) -> Answer:
    """Show a repository."""
    shown = repository_json(call.view, call.repository)
    if call.caller.installation is None:
        shown = {**shown, "permissions": call.github.oauth.permissions(call.caller.account, call.repository)}
    return Answer(200, shown)


@route("GET", "/repos/{owner}/{repo}/collaborators/{username}/permission", "metadata:read")
def get_collaborator_permission(call: Call) -> Answer:
    """Show what a person may do in a repository: their role, and the older word for it."""
    account = call.world.logins.get(call.params["username"].lower())
    if account is None or account.type == "Organization":
        raise Refusal(404, f"{call.params['username']} is not a user")
    level = call.github.oauth.level(account, call.repository)
    role = ROLES.get(level or "none", level or "none")
    permissions = call.github.oauth.permissions(account, call.repository)
    shown = {
        "permission": PERMISSIONS.get(role, role),
        "role_name": role,
        "user": collaborator_json(call.view, account, role, permissions),
    }
    return Answer(200, shown)


@route("PATCH", "/repos/{owner}/{repo}", "administration:write")
def update_repository(call: Call) -> Answer:
    """Rename, archive, choose another default branch, or what happens to pull requests and their branches."""
    repository, body = call.repository, call.body
    if repository.archived and body.get("archived") is not False:
        raise Refusal(403, "Repository was archived so is read-only.")
    if isinstance(body.get("archived"), bool):
        repositories.set_archived(call.world, call.actor, repository, archived=body["archived"])
    if body.get("default_branch"):
        repositories.refuse_default_branch(call.world, call.actor, repository)
        repositories.set_default_branch(call.world, call.actor, repository, body["default_branch"])
    if body.get("name") and body["name"] != repository.name:
        repositories.rename(call.world, call.actor, repository, body["name"])
    if isinstance(body.get("allow_auto_merge"), bool):
        repository.allow_auto_merge = body["allow_auto_merge"]
    if isinstance(body.get("delete_branch_on_merge"), bool):
        repository.delete_branch_on_merge = body["delete_branch_on_merge"]
    return Answer(200, repository_json(call.view, repository))


@route("POST", "/repos/{owner}/{repo}/transfer", "administration:write")
def transfer_repository(call: Call) -> Answer:
    """Hand a repository to another account."""
    owner = call.world.logins.get(str(call.body.get("new_owner", "")).lower())
    if owner is None:
        raise Refusal(422, "Validation Failed", ["new_owner is invalid"])
    repositories.transfer(call.world, call.actor, call.repository, owner, call.body.get("new_name"))
    return Answer(202, repository_json(call.view, call.repository))


@route("DELETE", "/repos/{owner}/{repo}", "administration:write")
def delete_repository(call: Call) -> Answer:
    """Delete a repository."""
    repositories.delete(call.world, call.actor, call.repository)
    return Answer(204)


@route("POST", "/orgs/{org}/repos", credential="person")
def create_organization_repository(call: Call) -> Answer:
    """Create a repository in an organisation."""
    account = call.world.logins.get(call.params["org"].lower())
    if account is None:
        raise not_found()
    private = call.body.get("private") is not False
    name = str(call.body.get("name", ""))
    made = repositories.create_repository(call.world, call.actor, account, name, private=private)
    return Answer(201, repository_json(call.view, made))
