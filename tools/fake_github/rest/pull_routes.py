"""Pull requests and merging."""

from tools.fake_github.answers import paged
from tools.fake_github.model import changes, labels, merges, pulls
from tools.fake_github.model.records import PullRequest
from tools.fake_github.model.refusals import Refusal, invalid_request, validation_failed
from tools.fake_github.model.roles import has_level
from tools.fake_github.payloads.pulls import (
    file_json,
    label_json,
    pull_json,
    review_json,
    simple_pull_json,
)
from tools.fake_github.payloads.repositories import commit_json
from tools.fake_github.rest.routing import Call, route
from tools.simulation.answers import Answer

REVIEW_STATES = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}


def _pull(call: Call) -> PullRequest:
    return pulls.pull_numbered(call.repository, call.number("number"))


def _selected(call: Call) -> list[PullRequest]:
    """Apply `state`, `base` and `head`; the open ones come from an index."""
    repository, query = call.repository, call.query
    state, base = query.get("state", "open"), query.get("base")
    found: list[PullRequest]
    if state == "open" and base:
        found = list(call.world.open_into[repository.id, base].values())
    else:
        found = [pull for pull in repository.pulls.values() if state in {"all", pull.state}]
        found = [pull for pull in found if not base or pull.base_ref == base]
    owner, _, head = query.get("head", "").rpartition(":")
    if query.get("head"):
        own = not owner or owner.lower() == call.world.owner(repository).login.lower()
        found = [pull for pull in found if own and pull.head_ref == head]
    return found


@route("GET", "/repos/{owner}/{repo}/pulls", "pull_requests:read")
def list_pulls(call: Call) -> Answer:
    """List pull requests by state, base and head; sorted by created (the newest first) or updated."""
    key = "updated_at" if call.query.get("sort") == "updated" else "created_at"
    descending = call.query.get("direction", "desc" if "sort" not in call.query else "asc") == "desc"
    found = sorted(_selected(call), key=lambda pull: (getattr(pull, key), pull.number), reverse=descending)
    return paged(call.url, call.query, found, lambda pull: simple_pull_json(call.view, call.repository, pull))


@route("GET", "/repos/{owner}/{repo}/pulls/{number}", "pull_requests:read")
def get_pull(call: Call) -> Answer:
    """Show a pull request."""
    return Answer(200, pull_json(call.view, call.repository, _pull(call)))


@route("POST", "/repos/{owner}/{repo}/pulls", "pull_requests:write")
def create_pull(call: Call) -> Answer:
    """Open a pull request."""
    body = call.body
    for name in ("head", "base"):
        if not isinstance(body.get(name), str):
            raise invalid_request(f'"{name}" wasn\'t supplied.')
    if not body.get("title"):
        raise validation_failed("PullRequest", "title", "missing_field")
    head = body["head"].rpartition(":")[2]
    wanted = pulls.Proposal(body["title"], head, body["base"], body.get("body"), draft=body.get("draft") is True)
    pull = pulls.open_pull_request(call.world, call.actor, call.repository, wanted)
    return Answer(201, pull_json(call.view, call.repository, pull))


@route("PATCH", "/repos/{owner}/{repo}/pulls/{number}", "pull_requests:write")
def update_pull(call: Call) -> Answer:
    """Change title, body, base or state."""
    pull, body = _pull(call), call.body
    if body.get("state") not in {None, "open", "closed"}:
        raise validation_failed("PullRequest", "state")
    pulls.edit(
        call.world,
        call.actor,
        call.repository,
        pull,
        title=body.get("title"),
        body=body.get("body"),
        base=body.get("base"),
    )
    if body.get("state") == "closed":
        pulls.close(call.world, call.actor, call.repository, pull)
    elif body.get("state") == "open":
        pulls.reopen(call.world, call.actor, call.repository, pull)
    return Answer(200, pull_json(call.view, call.repository, pull))


@route("PUT", "/repos/{owner}/{repo}/pulls/{number}/merge", "contents:write")
def merge_pull(call: Call) -> Answer:
    """Merge a pull request, if nothing forbids it."""
    body = call.body
    sha = merges.merge(call.world, call.actor, call.repository, _pull(call), body.get("sha"), body.get("commit_title"))
    return Answer(200, {"sha": sha, "merged": True, "message": "Pull Request successfully merged"})


@route("POST", "/repos/{owner}/{repo}/pulls/{number}/reviews", "pull_requests:write")
def review_pull(call: Call) -> Answer:
    """Approve, request changes, or comment."""
    pull, event = _pull(call), call.body.get("event")
    if event not in REVIEW_STATES:
        raise validation_failed("PullRequestReview", "event")
    body = call.body.get("body") or ""
    review = pulls.review(call.world, call.caller.account, call.repository, pull, REVIEW_STATES[event], body)
    return Answer(200, review_json(call.view, call.repository, pull, review))


@route("POST", "/repos/{owner}/{repo}/issues/{number}/labels", "pull_requests:write")
def add_labels(call: Call) -> Answer:
    """Set labels on a pull request, which are made if they are not there; for whom has triage at least."""
    pull, names = _pull(call), call.body.get("labels")
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise invalid_request('"labels" wasn\'t supplied.')
    _require_triage(call)
    for name in names:
        labels.add_label(call.world, call.actor, call.repository, pull, name)
    return _labels(call, pull)


@route("DELETE", "/repos/{owner}/{repo}/issues/{number}/labels/{name}", "pull_requests:write")
def remove_label(call: Call) -> Answer:
    """Take a label from a pull request."""
    pull = _pull(call)
    _require_triage(call)
    labels.remove_label(call.world, call.actor, call.repository, pull, call.params["name"])
    return _labels(call, pull)


@route("PATCH", "/repos/{owner}/{repo}/labels/{name}", "issues:write")
def rename_label(call: Call) -> Answer:
    """Rename a label."""
    name = call.params["name"]
    label = labels.rename_label(call.world, call.actor, call.repository, name, call.body.get("new_name") or name)
    return Answer(200, label_json(call.view, call.repository, label))


def _require_triage(call: Call) -> None:
    if call.actor.app_id is None and not has_level(call.world, call.actor, call.repository, "triage"):
        raise Refusal(403, "Must have triage access to Repository.")  # GitHub documents the status, not the words


def _labels(call: Call, pull: PullRequest) -> Answer:
    found = [label for label in call.repository.labels if label.id in pull.label_ids]
    return Answer(200, [label_json(call.view, call.repository, label) for label in found])


@route("GET", "/repos/{owner}/{repo}/pulls/{number}/commits", "pull_requests:read")
def list_commits_of_pull(call: Call) -> Answer:
    """List the commits that a pull request brings, the oldest first, 250 at most."""
    found = changes.commits_of(call.repository, _pull(call))[:250]
    return paged(call.url, call.query, found, lambda commit: commit_json(call.view, call.repository, commit))


@route("GET", "/repos/{owner}/{repo}/pulls/{number}/files", "pull_requests:read")
def list_files_of_pull(call: Call) -> Answer:
    """List the files that a pull request changes, by path, 3,000 at most."""
    pull = _pull(call)
    found = changes.files_of(call.repository, pull)[:3000]
    return paged(call.url, call.query, found, lambda each: file_json(call.view, call.repository, pull, each))


@route("GET", "/repos/{owner}/{repo}/commits/{sha}/pulls", "pull_requests:read")
def list_pulls_of_commit(call: Call) -> Answer:
    """List the pull requests that brought a commit or are to bring it; not those that were given up."""
    sha = call.params["sha"]
    found = [
        pull
        for pull in call.repository.pulls.values()
        if sha in {pull.head_sha, pull.merge_commit_sha} and (pull.state == "open" or pull.merged_at)
    ]
    return paged(call.url, call.query, found, lambda pull: simple_pull_json(call.view, call.repository, pull))
