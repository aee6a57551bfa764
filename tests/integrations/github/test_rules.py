"""Reading rules: a hole in an answer is never taken for nothing."""

from typing import Any

import pytest

from integrations.github import BranchRef, ErrorKind, GitHub, GitHubError, InstallationClient
from integrations.github.rules import BranchRules
from rules.rulesets.enforcement import ActiveRule, BypassActor, ClassicProtection, RequiredCheck, Ruleset
from tests.integrations.github.scripted_server import Reply, Script

CHECK = "change-freeze/main"
MAIN = BranchRef("R_1", "main")
OURS = Ruleset(7, "Change freeze: main", "active", "repository")
SHOWN = {
    "id": "RRS_7",
    "databaseId": 7,
    "name": "Change freeze: main",
    "enforcement": "ACTIVE",
    "source": {"__typename": "Repository"},
}
RULES_PATH = "GET /repos/acme/repo1/rules/branches/main"
REST_RULE = {
    "type": "required_status_checks",
    "parameters": {"required_status_checks": [{"context": CHECK, "integration_id": 42}]},
    "ruleset_source_type": "Organization",
    "ruleset_source": "acme",
    "ruleset_id": 8,
}


@pytest.fixture
def client(github: GitHub) -> InstallationClient:
    return github.client(7)


def required(**changes: Any) -> dict[str, Any]:
    return {
        "type": "REQUIRED_STATUS_CHECKS",
        "parameters": {
            "__typename": "RequiredStatusChecksParameters",
            "requiredStatusChecks": [{"context": CHECK, "integrationId": 42}],
        },
        "repositoryRuleset": SHOWN,
        **changes,
    }


def ref(*rules: Any, more: bool = False, classic: Any = None) -> dict[str, Any]:
    return {"rules": {"pageInfo": {"hasNextPage": more}, "nodes": list(rules)}, "branchProtectionRule": classic}


def node(number: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"R_{number}",
        "databaseId": number,
        "name": f"repo{number}",
        "owner": {"login": "acme"},
        "isPrivate": True,
        "isArchived": False,
        "defaultBranchRef": {"name": "main"},
        "rulesets": {"nodes": []},
        "ref": ref(required()),
        "mergeQueue": None,
        **changes,
    }


def graph(nodes: Any, *errors: tuple[str, list[Any]]) -> Reply:
    listed = [{"type": kind, "path": path, "message": "Resource not accessible"} for kind, path in errors]
    return Reply({"data": {"g0": nodes}, "errors": listed} if errors else {"data": {"g0": nodes}})


def read(script: Script, client: InstallationClient, *replies: Reply) -> BranchRules:
    script.then("POST /graphql", *replies)
    [found] = client.rules([MAIN])
    return found


def test_rules_of_many_branches_are_read_in_one_call(script: Script, client: InstallationClient) -> None:
    script.then("POST /graphql", graph([node(1), node(2)]))
    first, second = client.rules([MAIN, BranchRef("R_2", "main")])
    assert first.rules == second.rules == (ActiveRule("required_status_checks", OURS, (RequiredCheck(CHECK, 42),)),)
    assert (first.exists, first.node_ids, first.classic, first.classic_seen) == (True, {7: "RRS_7"}, None, True)
    assert len(script.asked("POST /graphql")) == 1


def test_unpinned_check_is_accepted_from_any_app(script: Script, client: InstallationClient) -> None:
    loose = {
        "requiredStatusChecks": [{"context": CHECK, "integrationId": None}, {"context": "ci", "integrationId": -1}]
    }
    found = read(script, client, graph([node(ref=ref(required(parameters=loose)))]))
    assert found.rules
    assert found.rules[0].checks == (RequiredCheck(CHECK, None), RequiredCheck("ci", None))


def test_rule_of_a_hidden_ruleset_is_in_force(script: Script, client: InstallationClient) -> None:
    found = read(script, client, graph([node(ref=ref(required(repositoryRuleset=None)))]))
    assert found.rules
    assert found.rules[0].ruleset is None


@pytest.mark.parametrize(
    "hole",
    [
        pytest.param(node(ref=ref(required(), None)), id="a rule is null"),
        pytest.param(node(ref=ref(required(parameters=None))), id="what a rule requires is null"),
        pytest.param(node(ref={"rules": None, "branchProtectionRule": None}), id="the rules are null"),
        pytest.param(node(ref=ref(required(), more=True)), id="there are more than a hundred rules"),
        pytest.param(node(ref=None), id="the branch does not exist"),
    ],
)
def test_rules_are_read_by_rest_when_graphql_omits_them(script: Script, client: InstallationClient, hole: Any) -> None:
    script.then(RULES_PATH, Reply([REST_RULE]))
    script.then("GET /repos/acme/repo1/rulesets/8", Reply({"id": 8, "name": "Everywhere"}))
    found = read(script, client, graph([hole]))
    assert found.rules is not None
    [rule] = found.rules
    assert rule.ruleset == Ruleset(8, "Everywhere", "active", "organization", None)
    assert rule.checks == (RequiredCheck(CHECK, 42),)


def test_bypass_actors_are_read_by_rest_when_visible(script: Script, client: InstallationClient) -> None:
    script.then(RULES_PATH, Reply([REST_RULE]))
    actors = [{"actor_id": 5, "actor_type": "RepositoryRole", "bypass_mode": "exempt"}]
    script.then("GET /repos/acme/repo1/rulesets/8", Reply({"id": 8, "name": "All", "bypass_actors": actors}))
    found = read(script, client, graph([node(ref=None)]))
    assert found.rules
    assert found.rules[0].ruleset is not None
    assert found.rules[0].ruleset.bypass_actors == (BypassActor("RepositoryRole", 5, None, "exempt"),)


def test_ruleset_hidden_from_rest_is_known_by_its_id_alone(script: Script, client: InstallationClient) -> None:
    script.then(RULES_PATH, Reply([REST_RULE]))
    found = read(script, client, graph([node(ref=None)]))
    assert found.rules
    assert found.rules[0].ruleset == Ruleset(8, "acme", "active", "organization", None)


def test_forbidden_rules_are_unknown_and_not_empty(script: Script, client: InstallationClient) -> None:
    script.then(RULES_PATH, Reply({"message": "Resource not accessible by integration"}, 403))
    found = read(script, client, graph([node(ref=None)]))
    assert found.rules is None
    assert found.error is not None
    assert found.error.kind is ErrorKind.PERMISSION


def test_classic_protection_is_read_and_a_refusal_is_no_absence(script: Script, client: InstallationClient) -> None:
    shown = {
        "isAdminEnforced": False,
        "lockBranch": True,
        "requiresStatusChecks": True,
        "requiredStatusChecks": [{"context": CHECK, "app": {"databaseId": 99}}, {"context": "ci", "app": None}],
    }
    found = read(script, client, graph([node(ref=ref(classic=shown))]))
    checks = (RequiredCheck(CHECK, 99), RequiredCheck("ci", None))
    assert found.classic == ClassicProtection(checks, binds_administrators=False, locked=True)
    off = read(script, client, graph([node(ref=ref(classic={**shown, "requiresStatusChecks": False}))]))
    assert off.classic == ClassicProtection((), binds_administrators=False, locked=True)
    refused = ("FORBIDDEN", ["g0", 0, "ref", "branchProtectionRule"])
    hidden = read(script, client, graph([node()], refused))
    assert (hidden.classic, hidden.classic_seen) == (None, False)


def test_forbidden_merge_queue_is_distinguished_from_none(script: Script, client: InstallationClient) -> None:
    queue = {"configuration": {"mergingStrategy": "HEADGREEN"}}
    found = read(script, client, graph([node(mergeQueue=queue)]))
    assert (found.queue_seen, found.queue_strategy) == (True, "HEADGREEN")
    assert read(script, client, graph([node()])).queue_seen is None
    refused = ("FORBIDDEN", ["g0", 0, "mergeQueue"])
    assert read(script, client, graph([node()], refused)).queue_seen is False


def test_hidden_repository_does_not_affect_others(script: Script, client: InstallationClient) -> None:
    script.then("POST /graphql", graph([None, node(2)], ("NOT_FOUND", ["g0", 0])))
    missing, found = client.rules([MAIN, BranchRef("R_2", "main")])
    assert (missing.repository, missing.rules) == (None, None)
    assert missing.error is not None
    assert missing.error.kind is ErrorKind.NOT_FOUND
    assert found.rules


def test_rulesets_are_listed_with_their_branches(script: Script, client: InstallationClient) -> None:
    names = {"refName": {"include": ["refs/heads/main"], "exclude": []}}
    disabled = {**SHOWN, "enforcement": "DISABLED", "conditions": names}
    found = read(script, client, graph([node(rulesets={"nodes": [disabled, None]})]))
    [listed] = found.listed
    assert (listed.node_id, listed.ruleset.enforcement) == ("RRS_7", "disabled")
    assert (listed.include, listed.exclude) == (("refs/heads/main",), ())


def test_rulesets_have_their_bypass_actors(script: Script, client: InstallationClient) -> None:
    team = {"bypassMode": "PULL_REQUEST", "actor": {"__typename": "Team", "databaseId": 12, "name": "release"}}
    role = {"bypassMode": "ALWAYS", "repositoryRoleDatabaseId": 5, "repositoryRoleName": "admin"}
    owners = {"bypassMode": "ALWAYS", "organizationAdmin": True}
    shown = {"bypassActors": {"nodes": [team, role, owners, None]}, "rules": {"nodes": [required()]}}
    script.then("POST /graphql", Reply({"data": {"nodes": [shown]}}))
    details = client.ruleset_details(["RRS_7", "RRS_7"])["RRS_7"]
    assert details.checks == (RequiredCheck(CHECK, 42),)
    assert details.bypass_actors == (
        BypassActor("Team", 12, "release", "pull_request"),
        BypassActor("RepositoryRole", 5, "admin", "always"),
        BypassActor("OrganizationAdmin", None, None, "always"),
        BypassActor("Unknown", None, None, "always"),
    )


@pytest.mark.parametrize("shown", [None, {}, {"bypassActors": None, "rules": None}])
def test_bypass_actors_of_an_unreadable_ruleset_are_unknown(
    script: Script, client: InstallationClient, shown: Any
) -> None:
    script.then("POST /graphql", Reply({"data": {"nodes": [shown]}}))
    details = client.ruleset_details(["RRS_7"])["RRS_7"]
    assert (details.bypass_actors, details.checks) == (None, None)


def test_hundred_rulesets_are_read_in_one_call(script: Script, client: InstallationClient) -> None:
    ids = [f"RRS_{number}" for number in range(150)]
    script.then("POST /graphql", *(Reply({"data": {"nodes": [{}] * count}}) for count in (100, 50)))
    assert list(client.ruleset_details(ids)) == ids


def test_rate_limit_fails_the_whole_call_for_rules(script: Script, client: InstallationClient) -> None:
    script.then("POST /graphql", Reply({"message": "You have exceeded a secondary rate limit"}, 403))
    with pytest.raises(GitHubError) as limited:
        client.rules([MAIN])
    assert limited.value.kind is ErrorKind.SECONDARY_RATE_LIMIT
