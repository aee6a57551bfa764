"""The client against the simulated GitHub, as a freeze uses it."""

from dataclasses import replace
from typing import Any

import pytest

from integrations.github import BranchRef, CheckAction, GitHubError
from integrations.github.events import BranchRefresh, InstallationRefresh, read_event
from tests.harness.checks_by_rest import create_check
from tests.integrations.github.conftest import NAME, SimulatedGitHub
from tools.fake_github.model.branches import create_branch
from tools.fake_github.model.installations import suspend, uninstall
from tools.fake_github.model.queue import enqueue
from tools.fake_github.model.repositories import delete, rename
from tools.fake_github.model.world import Event


def failing(simulated: SimulatedGitHub) -> GitHubError:
    with pytest.raises(GitHubError) as caught:
        simulated.client.open_heads([simulated.main])
    return caught.value


def test_app_reads_itself_and_its_installation(simulated: SimulatedGitHub) -> None:
    assert simulated.github.app()["slug"] == "change-freeze"
    info = simulated.github.installation(7)
    assert (info.account_login, info.account_type, info.suspended_at) == ("acme", "Organization", None)
    assert info.permissions["checks"] == "write"


def test_repositories_and_branches_are_listed_over_all_pages(simulated: SimulatedGitHub) -> None:
    for number in range(130):
        simulated.host.organization("acme").repository(f"service-{number}")
        simulated.web.branch(f"topic/{number}")
    found = list(simulated.client.repositories())
    assert len(found) == 131
    web = next(repository for repository in found if repository.name == "web")
    assert (web.github_id, web.node_id, web.owner) == (simulated.web.record.id, simulated.web.record.node_id, "acme")
    assert len(simulated.client.branches("acme", "web")) == 132
    (tips,) = simulated.client.branch_tips([web.node_id])
    assert len(tips.branches) == 132
    (releases,) = simulated.client.branch_tips([web.node_id], "release/")
    assert list(releases.branches) == ["release/9"]


def test_renamed_repository_is_found_by_id_and_by_its_old_name(simulated: SimulatedGitHub) -> None:
    rename(simulated.host.world, simulated.maintainer, simulated.web.record, "site")
    assert simulated.client.repository(simulated.web.record.id).name == "site"
    assert {branch.name for branch in simulated.client.branches("acme", "web")} == {"main", "release/9"}
    assert simulated.client.branch("acme", "site", "release/9").name == "release/9"


def test_every_open_head_is_read_blocked_and_read_back(simulated: SimulatedGitHub) -> None:
    pulls = [simulated.web.pull_request(draft=number % 2 == 0) for number in range(120)]
    elsewhere = simulated.web.pull_request(base="release/9")
    calls = [simulated.main, BranchRef("R_nowhere", "main"), BranchRef(simulated.web.record.node_id, "release/9")]
    main, nowhere, release = simulated.client.open_heads(calls)
    assert {pull.number for pull in main.pulls} == {pull.number for pull in pulls}
    assert {pull.head_sha for pull in main.pulls} == {pull.head_sha for pull in pulls}
    assert sum(pull.draft for pull in main.pulls) == 60
    assert main.sha == simulated.web.record.branches["main"]
    assert nowhere.error is not None
    assert nowhere.error.code == "repository_not_found"
    assert [pull.number for pull in release.pulls] == [elsewhere.number]
    results = simulated.client.write_checks([simulated.write(pull.head_sha) for pull in main.pulls])
    assert all(result.check_run_id and result.error is None for result in results)
    (again,) = simulated.client.open_heads([simulated.main], read_back_app_id=42)
    assert {(check.name, check.conclusion, check.external_id) for pull in again.pulls for check in pull.checks} == {
        (NAME, "failure", "g1")
    }
    assert {check.id for pull in again.pulls for check in pull.checks} == {run.check_run_id for run in results}


def test_newest_run_is_read_back_after_repeated_writes(simulated: SimulatedGitHub) -> None:
    sha = simulated.web.pull_request().head_sha
    for number, conclusion in enumerate(["failure", "success", "failure"]):
        simulated.client.write_checks([simulated.write(sha, conclusion, f"g{number}")])
    (heads,) = simulated.client.open_heads([simulated.main], read_back_app_id=42)
    assert [check.external_id for check in heads.pulls[0].checks] == ["g2"]
    assert [run.external_id for run in simulated.client.check_runs("acme", "web", sha, NAME)] == ["g2", "g1", "g0"]
    created = create_check(simulated.client, "acme", "web", simulated.write(sha, "success", "g3"))
    newest = simulated.client.check_runs("acme", "web", sha, NAME)[0]
    assert (newest.id, newest.conclusion, newest.app_id) == (created, "success", 42)


@pytest.mark.parametrize("by", ["GraphQL", "REST"])
def test_check_has_its_button(simulated: SimulatedGitHub, by: str) -> None:
    sha = simulated.web.pull_request().head_sha
    write = replace(simulated.write(sha), actions=(CheckAction("Ask", "Ask for it", "ask"),))
    if by == "REST":
        created: int | None = create_check(simulated.client, "acme", "web", write)
    else:
        (result,) = simulated.client.write_checks([write])
        created = result.check_run_id
    run = simulated.host.world.runs[created or 0]
    assert run.actions == [{"label": "Ask", "description": "Ask for it", "identifier": "ask"}]


def test_malformed_check_write_does_not_affect_others(simulated: SimulatedGitHub) -> None:
    sha = simulated.web.pull_request().head_sha
    unknown, nowhere, good = simulated.client.write_checks(
        [simulated.write("f" * 40), simulated.write(sha, node_id="R_nowhere"), simulated.write(sha)]
    )
    assert unknown.error is not None
    assert not unknown.error.maybe_applied
    assert nowhere.error is not None
    assert nowhere.error.code == "repository_not_found"
    assert good.check_run_id


def test_merge_queue_is_read_with_its_heads(simulated: SimulatedGitHub) -> None:
    simulated.web.requires(NAME).merge_queue()
    pull = simulated.web.pull_request(checks={NAME: "success"})
    entry = enqueue(simulated.host.world, simulated.maintainer, simulated.web.record, pull)
    (heads,) = simulated.client.open_heads([simulated.main], read_back_app_id=42)
    assert heads.queue_error is None
    assert [(each.pull_number, each.head_sha) for each in heads.queue] == [(pull.number, entry.head_sha)]


def test_branch_rules_have_the_required_check_and_its_app(simulated: SimulatedGitHub) -> None:
    simulated.web.requires(NAME)
    (rule,) = [
        rule
        for rule in simulated.client.branch_rules("acme", "web", "main")
        if rule["type"] == "required_status_checks"
    ]
    assert rule["parameters"]["required_status_checks"] == [{"context": NAME, "integration_id": 42}]
    assert simulated.client.branch_rules("acme", "web", "release/9") == []


def test_rulesets_are_created_changed_and_deleted(simulated: SimulatedGitHub) -> None:
    for rulesets in (
        simulated.client.repository_rulesets("acme", "web"),
        simulated.client.organization_rulesets("acme"),
    ):
        name = {"repository_name": {"include": ["~ALL"], "exclude": []}} if "orgs" in rulesets.owner_path else {}
        body = {
            "name": "freeze",
            "target": "branch",
            "enforcement": "active",
            "conditions": {"ref_name": {"include": ["~ALL"], "exclude": []}, **name},
            "rules": [{"type": "deletion"}],
        }
        made = rulesets.create(body)
        assert [each["id"] for each in rulesets.list()] == [made["id"]]
        assert rulesets.update(made["id"], body | {"enforcement": "disabled"})["enforcement"] == "disabled"
        assert rulesets.get(made["id"])["enforcement"] == "disabled"
        rulesets.delete(made["id"])
        assert rulesets.list() == []


def test_write_with_a_lost_response_can_be_read_back(simulated: SimulatedGitHub) -> None:
    sha = simulated.web.pull_request().head_sha
    simulated.host.faults.add("disconnect", "createCheckRun", after=True, count=1)
    with pytest.raises(GitHubError) as caught:
        simulated.client.write_checks([simulated.write(sha)])
    assert (caught.value.code, caught.value.maybe_applied) == ("github_unavailable", True)
    (heads,) = simulated.client.open_heads([simulated.main], read_back_app_id=42)
    assert [check.external_id for check in heads.pulls[0].checks] == ["g1"]


def test_uninstalled_app_is_reported(simulated: SimulatedGitHub) -> None:
    simulated.client.open_heads([simulated.main])
    installation = simulated.host.world.installations[7]
    uninstall(simulated.host.world, simulated.maintainer, installation)
    assert failing(simulated).code == "installation_removed"


def test_suspended_installation_is_reported_and_works_when_resumed(simulated: SimulatedGitHub) -> None:
    simulated.client.open_heads([simulated.main])
    installation = simulated.host.world.installations[7]
    suspend(simulated.host.world, simulated.maintainer, installation, suspended=True)
    assert failing(simulated).code == "installation_suspended"
    assert simulated.github.installation(7).suspended_at is not None
    suspend(simulated.host.world, simulated.maintainer, installation, suspended=False)
    assert simulated.client.open_heads([simulated.main])[0].error is None


def test_deleted_repository_is_not_found(simulated: SimulatedGitHub) -> None:
    delete(simulated.host.world, simulated.maintainer, simulated.web.record)
    (heads,) = simulated.client.open_heads([simulated.main])
    assert heads.error is not None
    assert heads.error.code == "repository_not_found"
    with pytest.raises(GitHubError) as caught:
        simulated.client.repository(simulated.web.record.id)
    assert caught.value.code == "repository_not_found"


def test_webhooks_of_github_become_hints(simulated: SimulatedGitHub) -> None:
    events: list[tuple[Event, dict[str, Any]]] = []
    record_events(simulated, events)
    tip = simulated.web.record.branches["main"]
    create_branch(simulated.host.world, simulated.maintainer, simulated.web.record, "release/10", tip)
    suspend(simulated.host.world, simulated.maintainer, simulated.host.world.installations[7], suspended=True)
    hints = [hint for event, body in events for hint in read_event(event.name, body, app_id=42)]
    assert BranchRefresh(7, simulated.web.record.id, frozenset({"release/10"})) in hints
    assert InstallationRefresh(7) in hints


def record_events(simulated: SimulatedGitHub, events: list[tuple[Event, dict[str, Any]]]) -> None:
    """Collect the webhooks' bodies instead of sending them."""
    from tools.fake_github.webhooks.payloads import make_body

    installation = simulated.host.world.installations[7]
    simulated.host.world.listeners.append(
        lambda event: events.append((event, make_body(simulated.host.view, event, installation)))
    )
