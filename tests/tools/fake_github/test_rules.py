"""Rules as the graph shows them, who is shown what, and classic branch protection beside rulesets."""

from typing import Any

import orjson
import pytest
from githubkit import GitHub
from githubkit.exception import RequestFailed

from tests.tools.fake_github.conftest import CHECK, PLACE, refused
from tools.fake_github import FakeGitHub
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.persistence import dump, restore

TEAM = {"actor_id": 12, "actor_type": "Team", "bypass_mode": "pull_request"}
RULES = """query($id:ID!){node(id:$id){...on Repository{
 rulesets(first:10){nodes{name enforcement source{__typename} conditions{refName{include}}}}
 mergeQueue(branch:"main"){configuration{mergingStrategy}}
 ref(qualifiedName:"refs/heads/main"){
  branchProtectionRule{isAdminEnforced requiredStatusChecks{context app{databaseId}}}
  rules(first:10){nodes{type parameters{__typename
    ...on RequiredStatusChecksParameters{requiredStatusChecks{context integrationId}}
    ...on MergeQueueParameters{groupingStrategy}}
   repositoryRuleset{databaseId bypassActors(first:10){nodes{bypassMode actor{...on Team{databaseId}}}}}}}}}}}"""


@pytest.fixture
def web(github: FakeGitHub) -> RepositoryBuilder:
    return github.organization("acme").repository("web").requires(CHECK)


def ask(client: GitHub[Any], web: RepositoryBuilder) -> tuple[Any, list[Any]]:
    answer = client.request("POST", "/graphql", json={"query": RULES, "variables": {"id": web.record.node_id}}).json()
    errors = [(error["type"], error["path"][1:]) for error in answer.get("errors", [])]
    return answer["data"]["node"], errors


def body(**other: Any) -> dict[str, Any]:
    parameters = {"required_status_checks": [{"context": "ci"}], "strict_required_status_checks_policy": False}
    rule = {"type": "required_status_checks", "parameters": parameters}
    conditions = {"ref_name": {"include": ["~DEFAULT_BRANCH"], "exclude": []}}
    return {"name": "CI", "enforcement": "active", "conditions": conditions, "rules": [rule], **other}


def protection(app_id: int | None = None, *, bound: bool = True, locked: bool = False) -> Any:
    return {
        "required_status_checks": {"strict": False, "contexts": [], "checks": [{"context": CHECK, "app_id": app_id}]},
        "enforce_admins": bound,
        "required_pull_request_reviews": None,
        "restrictions": None,
        "lock_branch": locked,
    }


def test_active_rules_of_a_branch_have_their_rulesets(web: RepositoryBuilder, person: GitHub[Any]) -> None:
    web.merge_queue(strategy="HEADGREEN").ruleset(**body(enforcement="disabled", bypass_actors=[TEAM]))
    shown, errors = ask(person, web)
    assert not errors
    rules = shown["ref"]["rules"]["nodes"]
    assert [rule["type"] for rule in rules] == ["REQUIRED_STATUS_CHECKS", "MERGE_QUEUE"]
    assert rules[0]["parameters"]["requiredStatusChecks"] == [{"context": CHECK, "integrationId": web.github.app_id}]
    assert rules[1]["parameters"]["groupingStrategy"] == "HEADGREEN"
    assert [each["enforcement"] for each in shown["rulesets"]["nodes"]] == ["ACTIVE", "ACTIVE", "DISABLED"]
    assert shown["mergeQueue"]["configuration"]["mergingStrategy"] == "HEADGREEN"


def test_rulesets_of_the_organization_are_listed_where_they_apply(
    github: FakeGitHub, web: RepositoryBuilder, person: GitHub[Any]
) -> None:
    names = {"include": ["w*"], "exclude": []}
    above = body(conditions={"ref_name": {"include": ["~ALL"], "exclude": []}, "repository_name": names})
    github.organization("acme").ruleset(**above)
    other = github.organization("acme").repository("api")
    sources = [each["source"]["__typename"] for each in ask(person, web)[0]["rulesets"]["nodes"]]
    assert sources == ["Repository", "Organization"]
    assert ask(person, other)[0]["rulesets"]["nodes"] == []


def test_bypass_actors_are_visible_to_those_who_may_change_the_ruleset(
    github: FakeGitHub, web: RepositoryBuilder, bot: GitHub[Any]
) -> None:
    web.ruleset(**body(bypass_actors=[TEAM, {"actor_id": 7, "actor_type": "User", "bypass_mode": "exempt"}]))
    rule = ask(bot, web)[0]["ref"]["rules"]["nodes"][1]
    assert rule["repositoryRuleset"]["bypassActors"]["nodes"] == [
        {"bypassMode": "PULL_REQUEST", "actor": {"databaseId": 12}},
        {"bypassMode": None, "actor": None},
    ]
    shown: Any = bot.rest.repos.get_repo_ruleset(*PLACE, rule["repositoryRuleset"]["databaseId"]).parsed_data
    assert len(shown.bypass_actors) == 2


def test_rules_hidden_from_an_installation_are_forbidden_and_not_empty(
    github: FakeGitHub, web: RepositoryBuilder, bot: GitHub[Any]
) -> None:
    web.merge_queue()
    github.world.installations[1001].permissions = {"metadata": "read", "contents": "read"}
    shown, errors = ask(bot, web)
    assert shown["mergeQueue"] is None
    assert shown["ref"]["branchProtectionRule"] is None
    assert [rule["repositoryRuleset"]["bypassActors"] for rule in shown["ref"]["rules"]["nodes"]] == [None, None]
    assert {kind for kind, _ in errors} == {"FORBIDDEN"}
    assert ["mergeQueue"] in [path for _, path in errors]
    assert ["ref", "branchProtectionRule"] in [path for _, path in errors]
    number = next(iter(github.world.rulesets))
    plain = bot.request("GET", f"/repos/acme/web/rulesets/{number}").json()
    assert "bypass_actors" not in plain


def test_organization_bypass_actors_require_organization_permission(
    github: FakeGitHub, web: RepositoryBuilder, bot: GitHub[Any]
) -> None:
    names = {"include": ["~ALL"], "exclude": []}
    above = body(conditions={"ref_name": {"include": ["~ALL"], "exclude": []}, "repository_name": names})
    github.organization("acme").ruleset(**above)
    github.world.installations[1001].permissions = {
        "metadata": "read",
        "administration": "write",
        "merge_queues": "read",
    }
    shown, errors = ask(bot, web)
    actors = [rule["repositoryRuleset"]["bypassActors"] for rule in shown["ref"]["rules"]["nodes"]]
    assert actors == [{"nodes": []}, None]
    assert [path[:2] + path[-2:] for _, path in errors] == [["ref", "rules", "repositoryRuleset", "bypassActors"]]


@pytest.mark.parametrize(("app_id", "blocks"), [(None, False), (4242, False), (99, True)])
def test_classic_protection_accepts_a_check_only_from_its_app(
    web: RepositoryBuilder, person: GitHub[Any], app_id: int | None, *, blocks: bool
) -> None:
    person.rest.repos.update_branch_protection(*PLACE, "main", data=protection(app_id))
    pull = web.pull_request(checks={CHECK: "success"})
    if not blocks:
        assert person.rest.pulls.merge(*PLACE, pull.number).parsed_data.merged
        return
    assert f'Required status check "{CHECK}" is expected.' in refused(person.rest.pulls.merge, *PLACE, pull.number)[1]


@pytest.mark.parametrize(("bound", "status"), [(True, 405), (False, 200)])
def test_classic_protection_applies_to_administrators_when_enforced(
    github: FakeGitHub, person: GitHub[Any], *, bound: bool, status: int
) -> None:
    web = github.organization("acme").repository("web")
    person.rest.repos.update_branch_protection(*PLACE, "main", data=protection(bound=bound, locked=True))
    pull = web.pull_request()
    assert attempt(person, pull.number) == status


def attempt(person: GitHub[Any], number: int) -> int:
    try:
        return person.rest.pulls.merge(*PLACE, number).status_code
    except RequestFailed as refused:
        return refused.response.status_code


def test_classic_protection_survives_a_restart(github: FakeGitHub, web: RepositoryBuilder, person: GitHub[Any]) -> None:
    person.rest.repos.update_branch_protection(*PLACE, "main", data=protection(99))
    restore(github.world, orjson.loads(dump(github)))
    assert github.world.protections[web.record.id, "main"].checks[0]["app_id"] == 99
