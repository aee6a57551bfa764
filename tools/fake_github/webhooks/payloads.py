"""What webhooks carry, made at the moment of the event."""

from collections.abc import Callable
from typing import Any

from tools.fake_github.model.branches import ZERO
from tools.fake_github.model.records import Account, Installation, Repository
from tools.fake_github.model.world import Event
from tools.fake_github.payloads import checks, protections, pulls, rulesets
from tools.fake_github.payloads import repositories as shapes
from tools.fake_github.payloads.accounts import account_json, installation_json, organization_json, team_json
from tools.fake_github.payloads.view import Json, View

Maker = Callable[[View, Event], Json]


def _repository(event: Event) -> Repository:
    assert event.repository is not None
    return event.repository


def _changes(view: View, given: Any) -> Any:
    """Shape the accounts inside `changes`."""
    if isinstance(given, Account):
        return account_json(view, given.id) if given.type == "User" else organization_json(view, given)
    if isinstance(given, dict):
        return {name: _changes(view, value) for name, value in given.items()}
    return given


def _repository_body(view: View, event: Event) -> Json:
    return {"changes": _changes(view, event.facts["changes"])} if "changes" in event.facts else {}


def _pull_body(view: View, event: Event) -> Json:
    facts = event.facts
    pull = facts["pull"]
    body: Json = {"number": pull.number, "pull_request": pulls.pull_json(view, _repository(event), pull)}
    if "label" in facts:
        body["label"] = pulls.label_json(view, _repository(event), facts["label"])
    return body | {name: facts[name] for name in ("before", "after", "changes", "reason") if name in facts}


def _label_body(view: View, event: Event) -> Json:
    return {
        "label": pulls.label_json(view, _repository(event), event.facts["label"]),
        "changes": event.facts["changes"],
    }


def _review_body(view: View, event: Event) -> Json:
    repository, pull = _repository(event), event.facts["pull"]
    review = pulls.review_json(view, repository, pull, event.facts["review"])
    return {
        "review": {**review, "state": review["state"].lower()},
        "pull_request": pulls.simple_pull_json(view, repository, pull),
    }


def _check_run_body(view: View, event: Event) -> Json:
    repository, run = _repository(event), event.facts["run"]
    shown = checks.check_run_json(view, repository, run)
    suite = checks.check_suite_json(view, repository, view.world.suites[run.suite_id])
    kept = "id node_id head_branch head_sha status conclusion url before after pull_requests app created_at updated_at"
    shown["check_suite"] = {name: suite[name] for name in kept.split()}
    body: Json = {"check_run": shown}
    if event.action == "requested_action":
        body["requested_action"] = {"identifier": event.facts["identifier"]}
    return body


def _head_commit(view: View, repository: Repository, sha: str) -> Json | None:
    commit = repository.commits.get(sha)
    if commit is None:
        return None
    git = shapes.git_commit_json(view, repository, commit)
    person = {"name": git["author"]["name"], "email": git["author"]["email"], "username": git["author"]["name"]}
    return {
        "id": sha,
        "tree_id": git["tree"]["sha"],
        "distinct": True,
        "message": commit.message,
        "timestamp": commit.date,
        "url": git["html_url"],
        "author": person,
        "committer": person,
        "added": [],
        "removed": [],
        "modified": sorted(commit.files),
    }


def _merge_group_body(view: View, event: Event) -> Json:
    repository, entry = _repository(event), event.facts["entry"]
    commit = _head_commit(view, repository, entry.head_sha) or {}
    kept: Json = {name: commit.get(name) for name in ("id", "tree_id", "message", "timestamp")}
    people: Json = {
        name: {key: commit[name][key] for key in ("name", "email")}
        for name in ("author", "committer")
        if name in commit
    }
    group = {
        "head_sha": entry.head_sha,
        "head_ref": f"refs/heads/{entry.head_ref}",
        "base_sha": entry.base_sha,
        "base_ref": f"refs/heads/{entry.base_ref}",
        "head_commit": {**kept, **people},
    }
    return {"merge_group": group} | ({"reason": event.facts["reason"]} if "reason" in event.facts else {})


def _push_body(view: View, event: Event) -> Json:
    repository, facts = _repository(event), event.facts
    before, after = facts["before"], facts["after"]
    page = f"{view.base}/{view.world.full_name(repository)}/compare/{before[:12]}...{after[:12]}"
    commit = _head_commit(view, repository, after)
    return {
        "ref": f"refs/heads/{facts['branch']}",
        "before": before,
        "after": after,
        "base_ref": None,
        "created": before == ZERO,
        "deleted": after == ZERO,
        "forced": facts.get("forced", False),
        "compare": page,
        "commits": [commit] if commit and before != ZERO else [],
        "head_commit": commit,
        "pusher": {"name": event.sender.login, "email": f"{event.sender.login}@users.noreply.localhost"},
    }


def _push_repository(view: View, repository: Repository) -> Json:
    """Shape the repository of a push, whose owner has a name and whose times are epoch seconds."""
    shown = shapes.repository_json(view, repository)
    owner = {**shown["owner"], "name": shown["owner"]["login"], "email": None}
    return {**shown, "owner": owner, "master_branch": repository.default_branch, "stargazers": 0}


def _branch_body(_view: View, event: Event) -> Json:
    body: Json = {"ref": event.facts["branch"], "ref_type": "branch", "pusher_type": "user"}
    if event.name == "create":
        body |= {"master_branch": _repository(event).default_branch, "description": None}
    return body


def _installation_body(view: View, event: Event) -> Json:
    found = [shapes.minimal_repository_json(view, each) for each in event.facts["repositories"]]
    return {"repositories": found} | ({"requester": None} if event.action == "created" else {})


def _installation_repositories_body(view: View, event: Event) -> Json:
    installation: Installation = event.facts["installation"]
    return {
        "repository_selection": installation.repository_selection,
        "repositories_added": [shapes.minimal_repository_json(view, each) for each in event.facts["added"]],
        "repositories_removed": [shapes.minimal_repository_json(view, each) for each in event.facts["removed"]],
        "requester": None,
    }


def _team_body(view: View, event: Event) -> Json:
    facts = event.facts
    organization = view.world.accounts[facts["organization"]]
    shown = {"team": team_json(view, organization, facts["team"], facts["slug"])}
    return shown | ({"changes": facts["changes"]} if "changes" in facts else {})


def _membership_body(view: View, event: Event) -> Json:
    return {"scope": "team", "member": account_json(view, event.facts["member"].id), **_team_body(view, event)}


def _ruleset_body(view: View, event: Event) -> Json:
    return {"repository_ruleset": rulesets.ruleset_json(view, event.facts["ruleset"])}


def _protection_body(_view: View, event: Event) -> Json:
    shown = {"rule": protections.rule_json(event.facts["protection"])}
    return shown | ({"changes": event.facts["changes"]} if "changes" in event.facts else {})


MAKERS: dict[str, Maker] = {
    "repository": _repository_body,
    "pull_request": _pull_body,
    "pull_request_review": _review_body,
    "check_run": _check_run_body,
    "merge_group": _merge_group_body,
    "push": _push_body,
    "create": _branch_body,
    "delete": _branch_body,
    "installation": _installation_body,
    "installation_repositories": _installation_repositories_body,
    "label": _label_body,
    "membership": _membership_body,
    "team": _team_body,
    "repository_ruleset": _ruleset_body,
    "branch_protection_rule": _protection_body,
}


def make_body(view: View, event: Event, installation: Installation) -> Json:
    """Make the body of an event's webhook for an installation."""
    body: Json = {"action": event.action} if event.action else {}
    body |= MAKERS[event.name](view, event)
    if event.name.startswith("installation"):
        body["installation"] = installation_json(view, installation)
    else:
        body["installation"] = {"id": installation.id, "node_id": f"MDIzOkluc3RhbGxhdGlvbg{installation.id}"}
    if event.repository is not None:
        shape = _push_repository if event.name == "push" else shapes.repository_json
        body["repository"] = shape(view, event.repository)
    owner = view.world.accounts[installation.account_id]
    if owner.type == "Organization":
        body["organization"] = organization_json(view, owner)
    body["sender"] = account_json(view, event.sender.id)
    return body
