"""Rulesets of many repositories, read with one query and written with one mutation."""

from dataclasses import replace
from typing import Any

import pytest

from integrations.github import ErrorKind, GitHub, GitHubError
from integrations.github.ruleset_batches import CreatedRuleset, RulesetBody
from rules.rulesets.plans import normalized
from tests.integrations.github.conftest import SimulatedGitHub
from tests.integrations.github.scripted_server import Reply, Script
from tools.fake_github.model.records import Ruleset
from tools.fake_github.model.rulesets import delete_ruleset

STOP = "change-freeze/stop/a"
READ = "POST /graphql"


def body(*branches: str, **changes: Any) -> dict[str, Any]:
    """Return a ruleset with a stop, as REST has it."""
    checks = {
        "strict_required_status_checks_policy": False,
        "do_not_enforce_on_create": False,
        "required_status_checks": [{"context": STOP, "integration_id": 42}],
    }
    return {
        "name": "Frozen",
        "target": "branch",
        "enforcement": "active",
        "bypass_actors": [],
        "conditions": {
            "ref_name": {"include": [f"refs/heads/{each}" for each in branches or ("main",)], "exclude": []}
        },
        "rules": [
            {"type": "creation"},
            {"type": "deletion"},
            {"type": "required_status_checks", "parameters": checks},
        ],
        **changes,
    }


def existing(simulated: SimulatedGitHub, ruleset: dict[str, Any] | None = None) -> Ruleset:
    simulated.web.ruleset(**(ruleset or body(enforcement="disabled")))
    return list(simulated.host.world.rulesets.values())[-1]


def shown_by_rest(simulated: SimulatedGitHub, ruleset: Ruleset) -> dict[str, Any]:
    return normalized(simulated.client.repository_rulesets("acme", "web").get(ruleset.id))


def read(simulated: SimulatedGitHub, ruleset: Ruleset) -> RulesetBody:
    (found,) = simulated.client.read_ruleset_bodies([ruleset.node_id])
    assert isinstance(found, RulesetBody)
    return found


@pytest.mark.parametrize(
    "branches", [("main",), ("main", "release/9"), ("veröffentlicht/ü", "机能/\N{SNOWMAN}", "ré[[]x]", 'a"b')]
)
def test_ruleset_is_written_and_read_as_by_rest(simulated: SimulatedGitHub, branches: tuple[str, ...]) -> None:
    ruleset = existing(simulated)
    assert simulated.client.write_rulesets([(ruleset.node_id, body(*branches))]) == [None]
    assert shown_by_rest(simulated, ruleset) == body(*branches)
    assert read(simulated, ruleset) == RulesetBody(ruleset.node_id, body(*branches), complete=True)


def test_check_of_any_app_stays_one_of_any_app(simulated: SimulatedGitHub) -> None:
    loose = body()
    loose["rules"][2]["parameters"]["required_status_checks"] = [
        {"context": "ci"},
        {"context": STOP, "integration_id": 42},
    ]
    ruleset = existing(simulated, loose)
    found = read(simulated, ruleset)
    assert (found.body, found.complete) == (loose, True)
    simulated.client.write_rulesets([(ruleset.node_id, {**found.body, "enforcement": "disabled"})])
    assert shown_by_rest(simulated, ruleset) == {**loose, "enforcement": "disabled"}


@pytest.mark.parametrize(
    "changes",
    [
        {"rules": [*body()["rules"], {"type": "non_fast_forward"}]},
        {"rules": [{"type": "creation"}] * 21},
        {"bypass_actors": [{"actor_id": 5, "actor_type": "RepositoryRole", "bypass_mode": "always"}]},
        {"conditions": {}},
        {"conditions": {**body()["conditions"], "repository_name": {"include": ["~ALL"], "exclude": []}}},
    ],
    ids=["other rule", "many rules", "bypass", "no condition", "other condition"],
)
def test_ruleset_is_incomplete_when_it_has_more(simulated: SimulatedGitHub, changes: dict[str, Any]) -> None:
    found = read(simulated, existing(simulated, body(**changes)))
    assert not found.complete
    assert found.body["name"] == "Frozen"
    assert ("bypass_actors" in found.body) == ("bypass_actors" not in changes)


def test_ruleset_with_hidden_bypass_actors_is_incomplete(simulated: SimulatedGitHub) -> None:
    ruleset = existing(simulated)
    simulated.host.world.installations[7].permissions = {"metadata": "read", "administration": "read"}
    found = read(simulated, ruleset)
    assert (found.complete, "bypass_actors" in found.body) == (False, False)


def test_twenty_rulesets_take_one_call(simulated: SimulatedGitHub) -> None:
    found = [existing(simulated, body(name=f"Frozen {number}", enforcement="disabled")) for number in range(21)]
    updates = [(each.node_id, body(name=each.name)) for each in found]
    simulated.client.branches("acme", "web")  # the token is there now
    simulated.host.calls.reset()
    assert simulated.client.write_rulesets(updates[:20]) == [None] * 20
    assert [each.enforcement for each in found] == ["active"] * 20 + ["disabled"]
    assert simulated.host.calls.total == 1
    bodies = simulated.client.read_ruleset_bodies([node_id for node_id, _ in updates])
    assert [each.node_id for each in bodies if isinstance(each, RulesetBody)] == [each.node_id for each in found]
    assert simulated.host.calls.total == 3
    with pytest.raises(ValueError, match="21 rulesets"):
        simulated.client.write_rulesets(updates)
    assert simulated.client.write_rulesets([]) == simulated.client.read_ruleset_bodies([]) == []
    assert simulated.host.calls.total == 3


def test_failed_ruleset_does_not_affect_others(simulated: SimulatedGitHub) -> None:
    first, gone, last = existing(simulated), existing(simulated, body(name="b")), existing(simulated, body(name="c"))
    delete_ruleset(simulated.host.world, simulated.maintainer, gone)
    broken = body(conditions={"ref_name": {"include": ["main"], "exclude": []}})
    results = simulated.client.write_rulesets(
        [(first.node_id, body()), (gone.node_id, body()), (last.node_id, broken), (last.node_id, body("x", name="c"))]
    )
    assert [each and (each.kind, each.maybe_applied) for each in results] == [
        None,
        (ErrorKind.NOT_FOUND, False),
        (ErrorKind.REJECTED, False),
        None,
    ]
    assert (first.enforcement, last.conditions["ref_name"]["include"]) == ("active", ["refs/heads/x"])
    shown, missing = simulated.client.read_ruleset_bodies([first.node_id, gone.node_id])
    assert isinstance(shown, RulesetBody)
    assert isinstance(missing, GitHubError)
    assert missing.kind is ErrorKind.NOT_FOUND


def test_rulesets_are_created_where_their_names_are_free(simulated: SimulatedGitHub) -> None:
    web = simulated.web.record.node_id
    made, taken, nowhere = simulated.client.create_rulesets([(web, body()), (web, body()), ("R_nowhere", body())])
    assert isinstance(made, CreatedRuleset)
    ruleset = simulated.host.world.rulesets[made.ruleset_id]
    assert (ruleset.node_id, shown_by_rest(simulated, ruleset)) == (made.node_id, body())
    assert isinstance(taken, GitHubError)
    assert isinstance(nowhere, GitHubError)
    assert (taken.kind, nowhere.kind) == (ErrorKind.REJECTED, ErrorKind.NOT_FOUND)


def test_missing_permission_for_rulesets_is_reported(simulated: SimulatedGitHub) -> None:
    ruleset = existing(simulated)
    simulated.host.world.installations[7].permissions = {"metadata": "read", "administration": "read"}
    (error,) = simulated.client.write_rulesets([(ruleset.node_id, body())])
    assert error is not None
    assert (error.kind, error.maybe_applied) == (ErrorKind.PERMISSION, False)


@pytest.mark.parametrize("after", [False, True])
def test_lost_answer_of_a_ruleset_write_may_be_applied(simulated: SimulatedGitHub, *, after: bool) -> None:
    ruleset = existing(simulated)
    simulated.host.faults.add("disconnect", "updateRepositoryRuleset", after=after, count=1)
    with pytest.raises(GitHubError) as caught:
        simulated.client.write_rulesets([(ruleset.node_id, body())])
    assert (caught.value.kind, caught.value.maybe_applied) == (ErrorKind.UNAVAILABLE, True)
    assert read(simulated, ruleset).body["enforcement"] == ("active" if after else "disabled")


def test_whole_call_for_rulesets_fails(simulated: SimulatedGitHub) -> None:
    ruleset = existing(simulated)
    simulated.host.settings.update({"secondaryLimits": True, "graphqlPointsPerMinute": 1, "retryAfterSeconds": 30})
    with pytest.raises(GitHubError) as caught:
        simulated.client.write_rulesets([(ruleset.node_id, body())])
    assert (caught.value.kind, caught.value.maybe_applied) == (ErrorKind.SECONDARY_RATE_LIMIT, False)
    assert caught.value.retry_after == 30


def test_ruleset_that_was_not_returned_may_be_written(script: Script, github: GitHub) -> None:
    answer = {"r0": {"ruleset": None}, "r1": {"ruleset": {"id": "RRS_1", "databaseId": 1}}, "r2": None}
    script.then(READ, Reply({"data": answer}))
    first, second, third = github.client(7).write_rulesets([(f"RRS_{number}", body()) for number in range(3)])
    assert second is None
    for error in (first, third):
        assert error is not None
        assert (error.kind, error.maybe_applied) == (ErrorKind.UNAVAILABLE, True)


@pytest.mark.parametrize(
    "changes",
    [
        {"rules": [{"type": "non_fast_forward"}]},
        {"bypass_actors": [{"actor_id": 5, "actor_type": "RepositoryRole"}]},
        {"conditions": {}},
        {"conditions": {**body()["conditions"], "repository_id": {"repository_ids": [1]}}},
    ],
    ids=["rule", "bypass", "no condition", "other condition"],
)
def test_body_that_cannot_be_translated_is_not_sent(script: Script, github: GitHub, changes: dict[str, Any]) -> None:
    for write in (github.client(7).write_rulesets, github.client(7).create_rulesets):
        with pytest.raises(ValueError, match="cannot be translated"):
            write([("X_1", body(**changes))])
    assert script.asked(READ) == []


RULES: dict[str, Any] = {"pageInfo": {"hasNextPage": False}, "nodes": []}
NODE = {
    "id": "RRS_1",
    "name": "Frozen",
    "target": "BRANCH",
    "enforcement": "ACTIVE",
    "conditions": {"refName": {"include": [], "exclude": []}},
    "bypassActors": {"totalCount": 0},
    "rules": RULES,
}


@pytest.mark.parametrize(
    "hole",
    [
        {"target": None},
        {"rules": None},
        {"rules": {**RULES, "nodes": [None]}},
        {"rules": {**RULES, "nodes": [{"type": "REQUIRED_STATUS_CHECKS", "parameters": None}]}},
    ],
)
def test_hole_in_a_ruleset_is_an_error(script: Script, github: GitHub, hole: dict[str, Any]) -> None:
    script.then(READ, Reply({"data": {"nodes": [NODE, {**NODE, **hole}]}}))
    good, bad = github.client(7).read_ruleset_bodies(["RRS_1", "RRS_2"])
    assert isinstance(good, RulesetBody)
    assert replace(good, body={}) == RulesetBody("RRS_1", {}, complete=True)
    assert isinstance(bad, GitHubError)
    assert bad.kind is ErrorKind.UNAVAILABLE
