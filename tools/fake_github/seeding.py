"""Filling the world from one document, as `POST /_control/seed` takes it."""

import base64
from typing import Any

from tools.fake_github.core import Core
from tools.fake_github.model import checks, pulls, queue, repositories
from tools.fake_github.model.branches import make_commit
from tools.fake_github.model.installations import install
from tools.fake_github.model.records import Account, AutoMerge, PullRequest, Repository
from tools.fake_github.model.rulesets import create_ruleset
from tools.fake_github.model.world import Actor

Json = dict[str, Any]

DOCUMENT = """
persons: [{login, token?}]
organizations:
  - login
    installation: {id?, repositories?: [name], permissions?}
    rulesets: [GitHub's JSON]
    repositories:
      - name, defaultBranch?, private?, archived?, branches?: [name], count?, rulesets?: [GitHub's JSON],
        requiredChecks?: {branch or pattern: check name}, mergeQueues?: {branch: ALLGREEN or HEADGREEN}
        pullRequests:
          - base?, head?, title?, body?, author?, draft?, count?, sharesHeadWith?: number, reviewDecision?, mergeable?,
            autoMerge?: true, fork?: login, checks?: {name: conclusion}, queued?: true, groupChecks?: {name: conclusion}
"""


def required_check_rules(context: str, integration_id: int | None) -> list[Json]:
    """Return the rules of a ruleset that requires one check."""
    check: Json = {"context": context}
    if integration_id is not None:
        check["integration_id"] = integration_id
    parameters = {"required_status_checks": [check], "strict_required_status_checks_policy": False}
    return [{"type": "required_status_checks", "parameters": parameters}]


def seed(github: Core, given: Json) -> Json:
    """Create what a seed document names, without webhooks; return the ids of what was made.

    See `DOCUMENT` for its form. A repository's `count` makes that many, `name` being a pattern such as `service-{}`.
    """
    with github.quietly():
        persons = [
            github.world.add_account(each["login"], each.get("type", "User"), each.get("token"))
            for each in given.get("persons", [])
        ]
        organizations = [_organization(github, each) for each in given.get("organizations", [])]
    return {
        "persons": [{"login": each.login, "id": each.id} for each in persons],
        "organizations": organizations,
    }


def _organization(github: Core, given: Json) -> Json:
    account = github.world.add_account(given["login"], given.get("type", "Organization"))
    actor = Actor(github.maintainer)
    made = [repository for each in given.get("repositories", []) for repository in _repositories(github, account, each)]
    for body in given.get("rulesets", []):
        create_ruleset(github.world, actor, "Organization", account.id, body)
    shown: Json = {
        "id": account.id,
        "login": account.login,
        "repositories": [
            {"id": each.id, "nodeId": each.node_id, "name": github.world.full_name(each)} for each in made
        ],
    }
    wanted = given.get("installation")
    if wanted is not None and account.id not in github.world.installed:
        names = wanted.get("repositories")
        chosen = None if names is None else [github.world.repository_named(f"{account.login}/{name}") for name in names]
        found = install(
            github.world,
            actor,
            github.app,
            account,
            chosen,
            permissions=wanted.get("permissions"),
            installation_id=wanted.get("id"),
        )
        shown["installationId"] = found.id
    return shown


def _repositories(github: Core, owner: Account, given: Json) -> list[Repository]:
    count = given.get("count")
    names = [given["name"]] if count is None else [given["name"].format(number) for number in range(1, count + 1)]
    return [_repository(github, owner, name, given) for name in names]


def _repository(github: Core, owner: Account, name: str, given: Json) -> Repository:
    world, actor = github.world, Actor(github.maintainer)
    found = world.find_repository(f"{owner.login}/{name}")
    repository = found or repositories.add_repository(
        world,
        owner,
        name,
        actor.account.id,
        given.get("defaultBranch", "main"),
        tuple(given.get("branches", ())),
        private=given.get("private", True),
    )
    for branch in given.get("branches", ()):
        repository.branches.setdefault(branch, repository.branches[repository.default_branch])
    made = [
        (add_pull_request(github, repository, pull), pull)
        for pull in given.get("pullRequests", [])
        for _ in range(pull.get("count", 1))
    ]
    for branch, context in given.get("requiredChecks", {}).items():
        require_check(github, repository, branch, context)
    for branch, strategy in given.get("mergeQueues", {}).items():
        require_queue(github, repository, branch, strategy)
    for body in given.get("rulesets", []):
        create_ruleset(world, actor, "Repository", repository.id, body)
    for pull, wanted in made:
        if wanted.get("queued"):
            _enqueue(github, repository, pull, wanted.get("groupChecks", {}))
    repository.archived = given.get("archived", repository.archived)
    return repository


def require_check(github: Core, repository: Repository, branch: str, context: str) -> None:
    """Require a check of the App on a branch (or a pattern of branches) of a repository."""
    body = {
        "name": f"Require {context}",
        "enforcement": "active",
        "target": "branch",
        "conditions": {"ref_name": {"include": [f"refs/heads/{branch}"], "exclude": []}},
        "rules": required_check_rules(context, github.app_id),
    }
    create_ruleset(github.world, Actor(github.maintainer), "Repository", repository.id, body)


def require_queue(github: Core, repository: Repository, branch: str, strategy: str = "ALLGREEN") -> None:
    """Let a branch be merged into through a merge queue only."""
    body = queue_ruleset(branch, strategy)
    create_ruleset(github.world, Actor(github.maintainer), "Repository", repository.id, body)


def queue_ruleset(branch: str, strategy: str = "ALLGREEN") -> Json:
    """Return the ruleset of a merge queue, as people write it."""
    parameters = {
        "check_response_timeout_minutes": 60,
        "grouping_strategy": strategy,
        "max_entries_to_build": 5,
        "max_entries_to_merge": 5,
        "merge_method": "MERGE",
        "min_entries_to_merge": 1,
        "min_entries_to_merge_wait_minutes": 5,
    }
    return {
        "name": f"Queue for {branch}",
        "enforcement": "active",
        "conditions": {"ref_name": {"include": [f"refs/heads/{branch}"], "exclude": []}},
        "rules": [{"type": "merge_queue", "parameters": parameters}],
    }


def add_pull_request(github: Core, repository: Repository, given: Json) -> PullRequest:
    """Add an open pull request with a commit of its own, or sharing the head of another."""
    world = github.world
    number = repository.next_number
    head = given.get("head") or f"change-{number}"
    base = given.get("base") or repository.default_branch
    fork = _fork(github, repository, given["fork"]) if given.get("fork") else None
    source = fork or repository
    if given.get("sharesHeadWith") is not None:
        repository.branches[head] = repository.pulls[given["sharesHeadWith"]].head_sha
    elif head not in source.branches:
        files: dict[str, str | None] = {f"changes/{number}.txt": base64.b64encode(b"Changed\n").decode()}
        message, parents = f"Change {number}", [repository.branches[base]]
        commit = make_commit(world, repository, github.maintainer.id, message, parents, files)
        source.commits[commit.sha] = commit
        source.branches[head] = commit.sha
    title = given.get("title") or f"Change {number}"
    author = _person(github, given["author"]) if given.get("author") else github.maintainer
    wanted = pulls.Proposal(title, head, base, given.get("body"), given.get("draft", False), fork)
    pull = pulls.add_pull(world, repository, author.id, wanted)
    pull.review_decision = given.get("reviewDecision")
    pull.mergeable = given.get("mergeable", True)
    if given.get("autoMerge"):
        pull.auto_merge = AutoMerge(world.now(), author.id, "merge")
    _report(github, repository, pull.head_sha, given.get("checks", {}))
    return pull


def _person(github: Core, login: str) -> Account:
    """Return the account of a login, which of a bot ends in `[bot]`; it is added if it is missing."""
    return github.world.add_account(login, "Bot" if login.endswith("[bot]") else "User")


def _fork(github: Core, repository: Repository, login: str) -> Repository:
    """Return a person's fork of a repository, which is added if it is missing."""
    world, owner = github.world, _person(github, login)
    found = world.find_repository(f"{login}/{repository.name}")
    fork = found or repositories.add_repository(world, owner, repository.name, owner.id, repository.default_branch)
    fork.commits |= repository.commits
    return fork


def _report(github: Core, repository: Repository, sha: str, conclusions: dict[str, str]) -> None:
    """Report checks of the App on a commit."""
    actor = Actor(github.world.accounts[github.app.bot_id], github.app_id)
    for name, conclusion in conclusions.items():
        fields = {"name": name, "head_sha": sha, "conclusion": conclusion}
        checks.create_check_run(github.world, actor, github.app_id, repository, fields)


def _enqueue(github: Core, repository: Repository, pull: PullRequest, conclusions: dict[str, str]) -> None:
    """Put a pull request into the merge queue, with checks on its group's commit; it has to be allowed in."""
    entry = queue.enqueue(github.world, Actor(github.maintainer), repository, pull)
    if entry.head_sha is not None:
        _report(github, repository, entry.head_sha, conclusions)
