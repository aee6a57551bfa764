"""Branches, references, commits and files."""

from tools.fake_github.answers import paged
from tools.fake_github.model import branches
from tools.fake_github.model.records import Repository
from tools.fake_github.model.refusals import Refusal, invalid_request, not_found
from tools.fake_github.model.renames import rename_branch
from tools.fake_github.model.rulesets import rules_for_branch
from tools.fake_github.payloads import repositories as shapes
from tools.fake_github.rest.routing import Call, route
from tools.simulation.answers import Answer


def _is_protected(call: Call, name: str) -> bool:
    return bool(rules_for_branch(call.world, call.repository, name))


def _branch(call: Call) -> str:
    name = call.params["branch"]
    if name not in call.repository.branches:
        raise Refusal(404, "Branch not found")
    return name


def resolve(repository: Repository, ref: str) -> str:
    """Return the commit of a branch name, a full or short reference, or a commit id."""
    name = ref.removeprefix("refs/").removeprefix("heads/")
    sha = repository.branches.get(name) or repository.branches.get(ref) or ref
    if sha not in repository.commits:
        raise Refusal(422, f"No commit found for SHA: {ref}")
    return sha


@route("GET", "/repos/{owner}/{repo}/branches", "contents:read")
def list_branches(call: Call) -> Answer:
    """List branches; `protected` filters by whether rules apply."""
    names = sorted(call.repository.branches)
    if call.query.get("protected") in {"true", "false"}:
        wanted = call.query["protected"] == "true"
        names = [name for name in names if _is_protected(call, name) == wanted]

    def shape(name: str) -> object:
        return shapes.short_branch_json(call.view, call.repository, name, protected=_is_protected(call, name))

    return paged(call.url, call.query, names, shape)


@route("GET", "/repos/{owner}/{repo}/branches/{branch*}", "contents:read")
def get_branch(call: Call) -> Answer:
    """Show a branch."""
    name = _branch(call)
    return Answer(200, shapes.branch_json(call.view, call.repository, name, protected=_is_protected(call, name)))


@route("POST", "/repos/{owner}/{repo}/branches/{branch*}/rename", "contents:write")
def rename(call: Call) -> Answer:
    """Give a branch another name."""
    name, new = _branch(call), str(call.body.get("new_name", ""))
    rename_branch(call.world, call.actor, call.repository, name, new)
    shape = shapes.branch_json(call.view, call.repository, new, protected=_is_protected(call, new))
    return Answer(201, shape)


def _branch_of_reference(call: Call) -> str:
    """Return the branch of a reference such as `heads/main`; the empty name, which no branch has, for another kind."""
    kind, _, name = call.params["ref"].partition("/")
    return name if kind == "heads" else ""


@route("GET", "/repos/{owner}/{repo}/git/ref/{ref*}", "contents:read")
@route("GET", "/repos/{owner}/{repo}/git/refs/{ref*}", "contents:read")
def get_reference(call: Call) -> Answer:
    """Show a branch as a reference; `refs` is the older address, which is also the reference's own `url`."""
    name = _branch_of_reference(call)
    if name not in call.repository.branches:
        raise not_found()
    return Answer(200, shapes.ref_json(call.view, call.repository, name))


@route("POST", "/repos/{owner}/{repo}/git/refs", "contents:write")
def create_reference(call: Call) -> Answer:
    """Create a branch."""
    ref = call.body.get("ref")
    if not isinstance(ref, str) or not ref.startswith("refs/heads/"):
        raise Refusal(422, "Reference name must start with 'refs/' and have at least two slashes.")
    name, sha = ref.removeprefix("refs/heads/"), branches.require_commit(call.repository, call.body.get("sha"))
    branches.create_branch(call.world, call.actor, call.repository, name, sha)
    return Answer(201, shapes.ref_json(call.view, call.repository, name))


@route("PATCH", "/repos/{owner}/{repo}/git/refs/{ref*}", "contents:write")
def update_reference(call: Call) -> Answer:
    """Move a branch to a commit: a direct push."""
    name, sha = _branch_of_reference(call), branches.require_commit(call.repository, call.body.get("sha"))
    force = call.body.get("force") is True
    branches.push(call.world, call.actor, call.repository, name, sha, force=force)
    return Answer(200, shapes.ref_json(call.view, call.repository, name))


@route("DELETE", "/repos/{owner}/{repo}/git/refs/{ref*}", "contents:write")
def delete_reference(call: Call) -> Answer:
    """Delete a branch."""
    branches.delete_branch(call.world, call.actor, call.repository, _branch_of_reference(call))
    return Answer(204)


@route("POST", "/repos/{owner}/{repo}/git/commits", "contents:write")
def create_git_commit(call: Call) -> Answer:
    """Make a commit that is on no branch yet."""
    branches.refuse_when_archived(call.repository)
    message, parents = call.body.get("message"), call.body.get("parents") or []
    if not isinstance(message, str):
        raise invalid_request('"message" wasn\'t supplied.')
    for parent in parents:
        branches.require_commit(call.repository, parent)
    commit = branches.make_commit(call.world, call.repository, call.actor.account.id, message, list(parents))
    return Answer(201, shapes.git_commit_json(call.view, call.repository, commit))


@route("PUT", "/repos/{owner}/{repo}/contents/{path*}", "contents:write")
def put_content(call: Call) -> Answer:
    """Write a file with a commit on a branch: a direct push."""
    body, branch = call.body, call.body.get("branch") or call.repository.default_branch
    for name in ("message", "content"):
        if not isinstance(body.get(name), str):
            raise invalid_request(f'"{name}" wasn\'t supplied.')
    path, text = call.params["path"], body["content"]
    change = branches.FileChange(path, text, body["message"], body.get("sha"))
    commit, new = branches.put_file(call.world, call.actor, call.repository, branch, change)
    shown = shapes.content_json(call.view, call.repository, branch, path, text, whole=False)
    git = shapes.git_commit_json(call.view, call.repository, commit)
    return Answer(201 if new else 200, {"content": shown, "commit": git})
