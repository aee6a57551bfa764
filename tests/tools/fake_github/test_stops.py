"""A context that no head has is required for a while: what waits meanwhile, what goes on, and who passes."""

from typing import Any

import httpx
import pytest
from githubkit import GitHub

from tests.tools.fake_github.conftest import CHECK, PLACE
from tools.fake_github import FakeGitHub
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model.queue import enqueue
from tools.fake_github.model.records import PullRequest, Ruleset
from tools.fake_github.model.rulesets import delete_ruleset, update_ruleset
from tools.fake_github.model.world import Actor
from tools.fake_github.seeding import required_check_rules

STOP = "change-freeze/stop/a"
DEFAULT_BRANCH = {"ref_name": {"include": ["~DEFAULT_BRANCH"], "exclude": []}}
ALL = {"include": ["~ALL"], "exclude": []}


@pytest.fixture
def web(github: FakeGitHub, bot: GitHub[Any]) -> RepositoryBuilder:
    return github.organization("acme").repository("web").requires(CHECK)


def stop(app_id: int, *actors: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a ruleset that requires the context of a stop on the default branch."""
    body = {"name": "Stop", "enforcement": "active", "conditions": DEFAULT_BRANCH, "bypass_actors": list(actors)}
    return {**body, "rules": required_check_rules(STOP, app_id), **more}


def stopped(web: RepositoryBuilder, *actors: dict[str, Any]) -> Ruleset:
    """Stop the default branch."""
    web.ruleset(**stop(web.github.app_id, *actors))
    return next(each for each in web.github.world.rulesets.values() if each.name == "Stop")


def end(web: RepositoryBuilder, ruleset: Ruleset, how: str) -> None:
    world, actor = web.github.world, Actor(web.github.maintainer)
    if how == "deleted":
        delete_ruleset(world, actor, ruleset)
    elif how == "emptied":
        update_ruleset(world, actor, ruleset, {"conditions": {"ref_name": {"include": [], "exclude": []}}})
    else:
        update_ruleset(world, actor, ruleset, {"enforcement": "disabled"})


def report(bot: GitHub[Any], sha: str | None, name: str, **run: Any) -> None:
    run = run or {"status": "completed", "conclusion": "success"}
    bot.rest.checks.create(*PLACE, name=name, head_sha=sha or "", **run)


@pytest.mark.parametrize("how", ["disabled", "emptied", "deleted"])
def test_auto_merge_waits_for_a_check_after_the_rules_allow_it(
    web: RepositoryBuilder, bot: GitHub[Any], person: GitHub[Any], how: str
) -> None:
    pull = web.pull_request(autoMerge=True)
    ruleset = stopped(web)
    report(bot, pull.head_sha, CHECK)
    end(web, ruleset, how)
    assert pull.merged_at is None
    assert person.rest.pulls.get(*PLACE, pull.number).parsed_data.mergeable_state == "clean"
    report(bot, pull.head_sha, "another", status="in_progress")
    assert pull.merged_at is None
    report(bot, pull.head_sha, "another")
    assert pull.merged_at is not None


def test_auto_merge_uses_no_bypass(web: RepositoryBuilder, bot: GitHub[Any], person: GitHub[Any]) -> None:
    pull = web.pull_request(autoMerge=True)
    stopped(web, {"actor_type": "OrganizationAdmin", "actor_id": 1})
    report(bot, pull.head_sha, CHECK)
    assert pull.merged_at is None
    assert person.rest.pulls.merge(*PLACE, pull.number).parsed_data.merged


def queued(web: RepositoryBuilder) -> PullRequest:
    pull = web.merge_queue().pull_request(checks={CHECK: "success"})
    enqueue(web.github.world, Actor(web.github.maintainer), web.record, pull)
    return pull


def group(web: RepositoryBuilder, pull: PullRequest) -> str | None:
    found = web.github.world.queue_entry(pull)
    assert found is not None
    return found.head_sha


def test_queue_waits_until_the_context_of_the_stop_completes(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    pull = queued(web)
    stopped(web, {"actor_type": "OrganizationAdmin", "actor_id": 1})
    report(bot, group(web, pull), CHECK)
    report(bot, group(web, pull), STOP, status="in_progress")
    assert pull.merged_at is None
    report(bot, group(web, pull), STOP)
    assert pull.merged_at is not None


def test_queue_waits_for_a_check_after_the_stop_has_ended(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    pull = queued(web)
    ruleset = stopped(web)
    report(bot, group(web, pull), CHECK)
    end(web, ruleset, "disabled")
    assert (pull.merged_at, group(web, pull) is None) == (None, False)
    report(bot, group(web, pull), CHECK)
    assert pull.merged_at is not None


ACTORS = [
    {"actor_type": "Team", "actor_id": 12},
    {"actor_type": "RepositoryRole", "actor_id": 4},
    {"actor_type": "OrganizationAdmin", "actor_id": 1},
]


@pytest.mark.parametrize(("mode", "pushes"), [("always", 200), ("exempt", 200), ("pull_request", 422)])
@pytest.mark.parametrize("actor", ACTORS, ids=lambda actor: str(actor["actor_type"]))
@pytest.mark.parametrize("level", ["repository", "organization"])
def test_who_bypasses_a_stop_merges_and_pushes_only_if_always(
    github: FakeGitHub, http: httpx.Client, level: str, actor: dict[str, Any], mode: str, pushes: int
) -> None:
    acme = github.organization("acme").team(12, "named")
    web = acme.repository("web")
    owner = actor["actor_type"] == "OrganizationAdmin"
    web.person("other", "triage" if actor["actor_type"] == "RepositoryRole" else "admin")
    github.world.tokens["token"] = acme.owner("named") if owner else web.person("named", "write")
    github.world.tokens["other token"] = github.world.logins["other"]
    body = stop(github.app_id, {**actor, "bypass_mode": mode})
    if level == "organization":
        acme.ruleset(**{**body, "conditions": {**DEFAULT_BRANCH, "repository_name": ALL}})
    else:
        web.ruleset(**body)
    assert merge(http, web, "other token") in {403, 405}
    assert merge(http, web, "token") == 200
    pushed = {"sha": web.pull_request().head_sha, "force": True}
    headers = {"Authorization": "Bearer token"}
    assert http.patch("/repos/acme/web/git/refs/heads/main", headers=headers, json=pushed).status_code == pushes


def merge(http: httpx.Client, web: RepositoryBuilder, token: str) -> int:
    number = web.pull_request().number
    return http.put(f"/repos/acme/web/pulls/{number}/merge", headers={"Authorization": f"Bearer {token}"}).status_code


def test_stop_of_an_organization_covers_its_refs_and_repositories_alone(
    github: FakeGitHub, bot: GitHub[Any], web: RepositoryBuilder
) -> None:
    acme = github.organization("acme")
    for name in ("api", "docs"):
        acme.repository(name, branches=("next",))
    covered = {"repository_ids": [web.record.id, acme.repository("api").record.id]}
    names = {"include": ["refs/heads/main"], "exclude": []}
    acme.ruleset(**stop(github.app_id, conditions={"ref_name": names, "repository_id": covered}))
    found = {
        (repository, branch): [rule["ruleset_source_type"] for rule in rules_of(bot, repository, branch)]
        for repository in ("web", "api", "docs")
        for branch in ("main", "next")
    }
    assert {place for place, sources in found.items() if "Organization" in sources} == {
        ("web", "main"),
        ("api", "main"),
    }


def rules_of(bot: GitHub[Any], repository: str, branch: str) -> Any:
    return bot.request("GET", f"/repos/acme/{repository}/rules/branches/{branch}").json()


@pytest.mark.parametrize(
    ("conditions", "status"),
    [
        (DEFAULT_BRANCH, 422),
        ({**DEFAULT_BRANCH, "repository_name": ALL, "repository_id": {"repository_ids": [1]}}, 422),
        ({**DEFAULT_BRANCH, "repository_name": ALL, "repository_property": {"include": [], "exclude": []}}, 422),
        ({**DEFAULT_BRANCH, "repository_id": {"repository_ids": [1]}}, 201),
        ({**DEFAULT_BRANCH, "repository_name": ALL}, 201),
    ],
    ids=["refs alone", "names and ids", "names and properties", "ids", "names"],
)
def test_organization_ruleset_has_exactly_one_condition_on_repositories(
    github: FakeGitHub, http: httpx.Client, conditions: dict[str, Any], status: int
) -> None:
    installation = github.organization("acme").installed()
    token = github.credentials.mint(installation, {"organization_administration": "write"}, None)[0]
    headers = {"Authorization": f"Bearer {token}"}
    body = stop(github.app_id, conditions=conditions)
    assert http.post("/orgs/acme/rulesets", headers=headers, json=body).status_code == status
    allowed = {**body, "name": "Other", "conditions": {**DEFAULT_BRANCH, "repository_name": ALL}}
    made = http.post("/orgs/acme/rulesets", headers=headers, json=allowed).json()
    change = {"conditions": conditions}
    changed = http.put(f"/orgs/acme/rulesets/{made['id']}", headers=headers, json=change)
    assert changed.status_code == (200 if status == 201 else 422)


@pytest.mark.parametrize(("level", "status"), [("read", 403), ("write", 200)])
def test_rulesets_of_an_organization_need_write_access_to_be_read(
    github: FakeGitHub, http: httpx.Client, level: str, status: int
) -> None:
    acme = github.organization("acme")
    acme.ruleset(**stop(github.app_id, conditions={**DEFAULT_BRANCH, "repository_name": ALL}))
    token = github.credentials.mint(acme.installed(), {"organization_administration": level}, None)[0]
    number = next(iter(github.world.rulesets))
    for path in ("/orgs/acme/rulesets", f"/orgs/acme/rulesets/{number}"):
        assert http.get(path, headers={"Authorization": f"Bearer {token}"}).status_code == status
