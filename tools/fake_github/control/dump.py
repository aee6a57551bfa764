"""The verdicts that stand on all open heads, in one go."""

from collections.abc import Iterator
from typing import Any

from tools.fake_github.core import Core
from tools.fake_github.model.records import PullRequest, Repository
from tools.fake_github.model.rulesets import rules_for_branch

Json = dict[str, Any]


def dump_checks(host: Core, query: dict[str, str]) -> Json:
    """Return the newest run of every name on every open head and queued group.

    Query: `repository` (full name), `base`, `name` (of the check), `appId` (default: the App of this host);
    `details=true` tells of each pull request besides what decides how soon it could merge.
    """
    app_id = int(query.get("appId", host.app_id))
    shown: list[Json] = []
    for repository in host.world.repositories.values():
        if query.get("repository", host.world.full_name(repository)) == host.world.full_name(repository):
            shown.extend(_heads(host, repository, app_id, query))
    return {"heads": shown}


def _heads(host: Core, repository: Repository, app_id: int, query: dict[str, str]) -> Iterator[Json]:
    name = host.world.full_name(repository)
    common = {"repository": name, "repositoryId": repository.id}
    for pull in repository.pulls.values():
        if pull.state == "open" and query.get("base", pull.base_ref) == pull.base_ref:
            found = _runs(host, repository, pull.head_sha, app_id, query.get("name"))
            required = _required(host, repository, pull)
            yield {
                **common,
                "number": pull.number,
                "base": pull.base_ref,
                "headSha": pull.head_sha,
                "draft": pull.draft,
                "required": required,
                "checks": found,
                **(_details(host, pull) if query.get("details") == "true" else {}),
            }
    for (repository_id, sha), entry in host.world.groups.items():
        if repository_id == repository.id and query.get("base", entry.base_ref) == entry.base_ref:
            found = _runs(host, repository, sha, app_id, query.get("name"))
            yield {
                **common,
                "number": entry.number,
                "base": entry.base_ref,
                "headSha": sha,
                "queued": True,
                "checks": found,
            }


def _details(host: Core, pull: PullRequest) -> Json:
    return {
        "title": pull.title,
        "author": host.world.accounts[pull.author_id].login,
        "autoMerge": pull.auto_merge is not None,
        "reviewDecision": pull.review_decision,
        "inQueue": host.world.queue_entry(pull) is not None,
    }


def _required(host: Core, repository: Repository, pull: PullRequest) -> list[str]:
    return [
        check["context"]
        for _, rule in rules_for_branch(host.world, repository, pull.base_ref)
        if rule["type"] == "required_status_checks"
        for check in rule["parameters"]["required_status_checks"]
    ]


def _runs(host: Core, repository: Repository, sha: str, app_id: int, wanted: str | None) -> Json:
    suite = host.world.suites_on.get((repository.id, sha), {}).get(app_id)
    newest = {run.name: run for run in host.world.runs_in[suite.id]} if suite else {}
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
