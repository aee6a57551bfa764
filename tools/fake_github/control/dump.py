"""What stands at GitHub now, in one go: the verdicts on all open heads, and the ways into a branch."""

from collections.abc import Iterator
from typing import Any

from tools.fake_github.core import Core
from tools.fake_github.model.records import PullRequest, Repository
from tools.fake_github.model.rulesets import rules_for_branch
from tools.fake_github.model.ways_in import list_ways_in

Json = dict[str, Any]


def dump_checks(github: Core, query: dict[str, str]) -> Json:
    """Return the newest run of every name on every open head and queued group.

    Query: `repository` (full name), `base`, `name` (of the check), `appId` (default: the App of this github);
    `details=true` adds for each pull request what decides how soon it could merge.
    """
    app_id = int(query.get("appId", github.app_id))
    shown: list[Json] = []
    for repository in github.world.repositories.values():
        if query.get("repository", github.world.full_name(repository)) == github.world.full_name(repository):
            shown.extend(_heads(github, repository, app_id, query))
    return {"heads": shown}


def _heads(github: Core, repository: Repository, app_id: int, query: dict[str, str]) -> Iterator[Json]:
    name = github.world.full_name(repository)
    common = {"repository": name, "repositoryId": repository.id}
    for pull in repository.pulls.values():
        if pull.state == "open" and query.get("base", pull.base_ref) == pull.base_ref:
            found = _runs(github, repository, pull.head_sha, app_id, query.get("name"))
            required = _required(github, repository, pull)
            yield {
                **common,
                "number": pull.number,
                "base": pull.base_ref,
                "headSha": pull.head_sha,
                "draft": pull.draft,
                "required": required,
                "checks": found,
                **(_details(github, pull) if query.get("details") == "true" else {}),
            }
    for (repository_id, sha), entry in github.world.groups.items():
        if repository_id == repository.id and query.get("base", entry.base_ref) == entry.base_ref:
            found = _runs(github, repository, sha, app_id, query.get("name"))
            yield {
                **common,
                "number": entry.number,
                "base": entry.base_ref,
                "headSha": sha,
                "queued": True,
                "checks": found,
            }


def _details(github: Core, pull: PullRequest) -> Json:
    return {
        "title": pull.title,
        "author": github.world.accounts[pull.author_id].login,
        "autoMerge": pull.auto_merge is not None,
        "reviewDecision": pull.review_decision,
        "inQueue": github.world.queue_entry(pull) is not None,
    }


def _required(github: Core, repository: Repository, pull: PullRequest) -> list[str]:
    return [
        check["context"]
        for _, rule in rules_for_branch(github.world, repository, pull.base_ref)
        if rule["type"] == "required_status_checks"
        for check in rule["parameters"]["required_status_checks"]
    ]


def _runs(github: Core, repository: Repository, sha: str, app_id: int, wanted: str | None) -> Json:
    suite = github.world.suites_on.get((repository.id, sha), {}).get(app_id)
    newest = {run.name: run for run in github.world.runs_in[suite.id]} if suite else {}
    return {
        name: {
            "id": run.id,
            "status": run.status,
            "conclusion": run.conclusion,
            "externalId": run.external_id,
            "completedAt": run.completed_at,
        }
        for name, run in newest.items()
        if wanted in {None, name}
    }


def dump_ways_in(github: Core, query: dict[str, str]) -> Json:
    """Return every way by which something could be put into a branch now. Query: `repository` (full name), `branch`.

    The ways are those of `model/ways_in.py`, without what does not concern them.
    """
    repository = github.world.repository_named(query.get("repository", ""))
    branch = query.get("branch", repository.default_branch)
    return {
        "repositoryId": repository.id,
        "branch": branch,
        "sha": repository.branches.get(branch),
        "waysIn": [way.as_json() for way in list_ways_in(github.world, repository, branch, github.app_id)],
    }
