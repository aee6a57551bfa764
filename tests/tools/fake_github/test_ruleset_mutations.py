"""Rulesets created and changed by the graph: many in a request, each by itself, and all else as by REST."""

from datetime import timedelta
from typing import Any

import pytest
from githubkit import GitHub
from githubkit.exception import RequestFailed

from tools.fake_github import FakeGitHub
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model.protection import merge_violations
from tools.fake_github.model.records import Ruleset
from tools.fake_github.model.world import Actor
from tools.fake_github.webhook_receiver import GitHubWebhookReceiver

CONTEXT = "change-freeze/stop/a"
BRANCHES = {"refName": {"include": ["refs/heads/main"], "exclude": []}}
READ = """query($id:ID!){node(id:$id){...on RepositoryRuleset{name enforcement target
 conditions{refName{include exclude} repositoryId{repositoryIds} repositoryName{include}} bypassActors{totalCount}
 rules(first:9){nodes{type parameters{...on RequiredStatusChecksParameters{doNotEnforceOnCreate
  strictRequiredStatusChecksPolicy requiredStatusChecks{context integrationId}}}}}}}}"""


@pytest.fixture
def web(github: FakeGitHub, bot: GitHub[Any]) -> RepositoryBuilder:
    return github.organization("acme").repository("web", branches=("next",))


def stop(app_id: int, context: str = CONTEXT) -> dict[str, Any]:
    """Return the input of a rule that requires a context."""
    checks = {
        "strictRequiredStatusChecksPolicy": False,
        "doNotEnforceOnCreate": False,
        "requiredStatusChecks": [{"context": context, "integrationId": app_id}],
    }
    return {"type": "REQUIRED_STATUS_CHECKS", "parameters": {"requiredStatusChecks": checks}}


def existing(web: RepositoryBuilder, name: str = "Frozen", **more: Any) -> Ruleset:
    conditions = {"ref_name": {"include": ["refs/heads/main"], "exclude": []}}
    body = {"name": name, "enforcement": "disabled", "conditions": conditions, "rules": [{"type": "creation"}], **more}
    web.ruleset(**body)
    return next(each for each in web.github.world.rulesets.values() if each.name == name)


def send(client: GitHub[Any], text: str, **variables: Any) -> dict[str, Any]:
    shown: dict[str, Any] = client.request("POST", "/graphql", json={"query": text, "variables": variables}).json()
    return shown


def update(client: GitHub[Any], *inputs: dict[str, Any]) -> dict[str, Any]:
    """Send the changes in one request."""
    names = [f"i{number}" for number in range(len(inputs))]
    declared = ",".join(f"${name}:UpdateRepositoryRulesetInput!" for name in names)
    fields = " ".join(f"u{name}:updateRepositoryRuleset(input:${name}){{ruleset{{id name}}}}" for name in names)
    return send(client, f"mutation({declared}){{{fields}}}", **dict(zip(names, inputs, strict=True)))


def create(client: GitHub[Any], source: str, **given: Any) -> dict[str, Any]:
    text = """mutation($i:CreateRepositoryRulesetInput!){
     createRepositoryRuleset(input:$i){ruleset{id databaseId}}}"""
    body = {"name": "Stop", "target": "BRANCH", "enforcement": "ACTIVE", "conditions": BRANCHES, **given}
    return send(client, text, i={"sourceId": source, **body})


def errors(shown: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    return [(error["type"], error["path"]) for error in shown.get("errors", [])]


def test_update_by_the_graph_is_shown_by_rest(github: FakeGitHub, web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    ruleset = existing(web)
    rules = [{"type": "CREATION"}, stop(github.app_id)]
    include = {"include": ["refs/heads/main", "refs/heads/veröffentlicht/ü"], "exclude": ["refs/heads/x"]}
    given = {"enforcement": "ACTIVE", "conditions": {"refName": include}, "rules": rules, "bypassActors": []}
    assert "errors" not in update(bot, {"repositoryRulesetId": ruleset.node_id, **given})
    shown = bot.request("GET", f"/repos/acme/web/rulesets/{ruleset.id}").json()
    assert (shown["name"], shown["enforcement"], shown["target"]) == ("Frozen", "active", "branch")
    assert (shown["conditions"], shown["bypass_actors"]) == ({"ref_name": include}, [])
    creation, checks = shown["rules"]
    assert creation == {"type": "creation"}
    assert checks["parameters"] == {
        "strict_required_status_checks_policy": False,
        "do_not_enforce_on_create": False,
        "required_status_checks": [{"context": CONTEXT, "integration_id": github.app_id}],
    }


def test_ruleset_is_read_as_it_was_written(github: FakeGitHub, web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    rule = stop(github.app_id)
    made = create(bot, web.record.node_id, rules=[rule, {"type": "DELETION"}])["data"]["createRepositoryRuleset"]
    shown = send(bot, READ, id=made["ruleset"]["id"])["data"]["node"]
    assert shown == {
        "name": "Stop",
        "enforcement": "ACTIVE",
        "target": "BRANCH",
        "conditions": {**BRANCHES, "repositoryId": None, "repositoryName": None},
        "bypassActors": {"totalCount": 0},
        "rules": {
            "nodes": [
                {"type": rule["type"], "parameters": rule["parameters"]["requiredStatusChecks"]},
                {"type": "DELETION", "parameters": None},
            ]
        },
    }
    assert github.world.rulesets[made["ruleset"]["databaseId"]].name == "Stop"


def test_omitted_parts_of_a_ruleset_stay(github: FakeGitHub, web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    actor = {"actor_id": 5, "actor_type": "RepositoryRole", "bypass_mode": "always"}
    ruleset = existing(web, bypass_actors=[actor])
    before = (ruleset.target, ruleset.conditions, ruleset.rules, ruleset.bypass_actors)
    update(bot, {"repositoryRulesetId": ruleset.node_id, "name": "Other", "enforcement": "ACTIVE", "rules": None})
    assert (ruleset.name, ruleset.enforcement) == ("Other", "active")
    assert (ruleset.target, ruleset.conditions, ruleset.rules, ruleset.bypass_actors) == before


def test_each_update_of_a_request_succeeds_or_fails_by_itself(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    first, second = existing(web), existing(web, "Second")
    shown = update(
        bot,
        {"repositoryRulesetId": first.node_id, "enforcement": "ACTIVE"},
        {"repositoryRulesetId": "RRS_nowhere", "enforcement": "ACTIVE"},
        {"repositoryRulesetId": first.node_id, "conditions": {"refName": {"include": ["main"], "exclude": []}}},
        {"repositoryRulesetId": web.record.node_id, "enforcement": "ACTIVE"},
        {"repositoryRulesetId": second.node_id, "rules": [{"type": "LOCK_BRANCH"}]},
        {"repositoryRulesetId": second.node_id, "enforcement": "ACTIVE"},
    )
    kinds = ["NOT_FOUND", "UNPROCESSABLE", "NOT_FOUND", "UNPROCESSABLE"]
    assert errors(shown) == [(kind, [f"ui{place}"]) for place, kind in enumerate(kinds, start=1)]
    assert [shown["data"][f"ui{place}"] is None for place in range(6)] == [False, True, True, True, True, False]
    assert (first.enforcement, second.enforcement) == ("active", "active")
    assert web.github.calls.by_root_field["updateRepositoryRuleset"] == 6


def test_creation_of_a_taken_name_fails(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    existing(web, "Stop")
    shown = create(bot, web.record.node_id)
    assert errors(shown) == [("UNPROCESSABLE", ["createRepositoryRuleset"])]
    assert errors(create(bot, "R_nowhere")) == [("NOT_FOUND", ["createRepositoryRuleset"])]


def test_rulesets_are_changed_only_with_administration(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    ruleset = existing(web)
    web.github.world.installations[1001].permissions = {"metadata": "read", "administration": "read"}
    assert errors(update(bot, {"repositoryRulesetId": ruleset.node_id, "name": "x"})) == [("FORBIDDEN", ["ui0"])]
    assert errors(create(bot, web.record.node_id)) == [("FORBIDDEN", ["createRepositoryRuleset"])]
    assert [each.name for each in web.github.world.rulesets.values()] == ["Frozen"]


@pytest.mark.parametrize(("role", "refused"), [("write", [("FORBIDDEN", ["ui0"])]), ("admin", [])])
def test_rulesets_are_changed_only_by_administrators(
    github: FakeGitHub, web: RepositoryBuilder, person: GitHub[Any], role: str, refused: list[Any]
) -> None:
    ruleset = existing(web)
    web.person(github.maintainer.login, role)
    assert errors(update(person, {"repositoryRulesetId": ruleset.node_id, "name": "x"})) == refused


def test_rulesets_of_an_organization_need_its_permission(
    github: FakeGitHub, web: RepositoryBuilder, bot: GitHub[Any]
) -> None:
    acme = github.organization("acme").account
    conditions = {**BRANCHES, "repositoryId": {"repositoryIds": [web.record.node_id]}}
    made = create(bot, acme.node_id, conditions=conditions)["data"]["createRepositoryRuleset"]["ruleset"]
    shown = send(bot, READ, id=made["id"])["data"]["node"]
    assert shown["conditions"] == {**conditions, "repositoryName": None}
    assert errors(create(bot, acme.node_id, name="All")) == [("UNPROCESSABLE", ["createRepositoryRuleset"])]
    github.world.installations[1001].permissions |= {"organization_administration": "read"}
    assert errors(update(bot, {"repositoryRulesetId": made["id"], "name": "x"})) == [("FORBIDDEN", ["ui0"])]


def test_bypass_actors_of_the_graph_are_those_of_rest(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    ruleset = existing(web)
    given: list[dict[str, Any]] = [
        {"actorId": web.github.app.node_id, "bypassMode": "ALWAYS"},
        {"actorId": "T_c", "bypassMode": "PULL_REQUEST"},
        {"repositoryRoleDatabaseId": 5, "bypassMode": "ALWAYS"},
        {"organizationAdmin": True, "bypassMode": "PULL_REQUEST"},
    ]
    assert "errors" not in update(bot, {"repositoryRulesetId": ruleset.node_id, "bypassActors": given})
    found = [(each["actor_type"], each["actor_id"], each["bypass_mode"]) for each in ruleset.bypass_actors]
    assert found == [
        ("Integration", web.github.app_id, "always"),
        ("Team", 12, "pull_request"),
        ("RepositoryRole", 5, "always"),
        ("OrganizationAdmin", None, "pull_request"),
    ]


def test_changes_of_rulesets_by_the_graph_are_announced(
    github: FakeGitHub, web: RepositoryBuilder, bot: GitHub[Any], receiver: GitHubWebhookReceiver
) -> None:
    made = create(bot, web.record.node_id)["data"]["createRepositoryRuleset"]["ruleset"]
    update(bot, {"repositoryRulesetId": made["id"], "enforcement": "DISABLED"})
    github.sender.drain()
    assert sorted(body["action"] for body in receiver.bodies("repository_ruleset")) == ["created", "edited"]


def test_ruleset_changed_by_the_graph_is_enforced_after_the_delay(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    web.github.settings.update({"rulesetDelaySeconds": 3.0})
    ruleset, pull = existing(web), web.pull_request()
    clock = web.github.world.clock
    web.github.world.clock = lambda: clock() + timedelta(seconds=60)
    given = {"enforcement": "ACTIVE", "rules": [stop(web.github.app_id)]}
    update(bot, {"repositoryRulesetId": ruleset.node_id, **given})

    def blocked() -> bool:
        actor = Actor(web.github.maintainer)
        return bool(merge_violations(web.github.world, actor, web.record, "main", pull.head_sha, None))

    assert not blocked()
    web.github.world.clock = lambda: clock() + timedelta(seconds=64)
    assert blocked()


def test_request_that_changes_rulesets_costs_as_any_mutation(web: RepositoryBuilder, bot: GitHub[Any]) -> None:
    given = [{"repositoryRulesetId": existing(web, f"r{number}").node_id, "name": f"n{number}"} for number in range(20)]
    web.github.settings.update({"secondaryLimits": True, "graphqlPointsPerMinute": 9})
    assert "errors" not in update(bot, *given)
    with pytest.raises(RequestFailed):  # a mutation costs five points
        update(bot, *given)
