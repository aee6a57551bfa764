"""The control plane, the state file, and the process that keeps both."""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.harness.servers import client_of
from tests.tools.fake_github.conftest import CHECK
from tools.fake_github import FakeGitHub, persistence
from tools.fake_github.model.checks import create_check_run
from tools.fake_github.model.world import Actor

ROOT = Path(__file__).parents[3]
SEED = {
    "persons": [{"login": "ada", "token": "adas-token"}],
    "organizations": [
        {
            "login": "acme",
            "installation": {"id": 1001},
            "repositories": [
                {
                    "name": "web",
                    "branches": ["next"],
                    "requiredChecks": {"main": CHECK, "release/*": "change-freeze/release/*"},
                    "mergeQueues": {"next": "HEADGREEN"},
                    "pullRequests": [
                        {"base": "main", "checks": {CHECK: "success"}, "author": "ada"},
                        {"base": "next", "sharesHeadWith": 1, "draft": True},
                        {"base": "main", "autoMerge": True, "reviewDecision": "APPROVED"},
                    ],
                },
                {"name": "svc-{}", "count": 20, "pullRequests": [{"count": 2}]},
            ],
        },
        {"login": "globex", "repositories": [{"name": "api"}]},
    ],
}


def test_world_is_seeded_in_a_single_call(http: httpx.Client, github: FakeGitHub) -> None:
    made = http.post("/_control/seed", json=SEED).json()
    acme, globex = made["organizations"]
    assert (acme["installationId"], len(acme["repositories"]), len(globex["repositories"])) == (1001, 21, 1)
    web = github.world.repository_named("acme/web")
    assert web.pulls[1].head_sha == web.pulls[2].head_sha
    listed = http.get("/repos/acme/web/pulls", headers={"Authorization": "Bearer adas-token"}).json()
    assert [pull["number"] for pull in listed] == [3, 2, 1]


def test_thousand_repositories_are_seeded_together(http: httpx.Client, github: FakeGitHub) -> None:
    repositories = [{"name": "r{}", "count": 1000, "requiredChecks": {"main": CHECK}, "pullRequests": [{}]}]
    body = {"organizations": [{"login": "acme", "repositories": repositories}]}
    assert http.post("/_control/seed", json=body).status_code == 201
    assert len(github.world.repositories) == 1000


def test_checks_of_all_open_heads_are_returned_together(http: httpx.Client) -> None:
    http.post("/_control/seed", json=SEED)
    heads = http.get("/_control/checks").json()["heads"]
    assert len(heads) == 3 + 40
    first = heads[0]
    assert (first["repository"], first["number"], first["base"], first["required"]) == ("acme/web", 1, "main", [CHECK])
    assert first["checks"][CHECK]["conclusion"] == "success"
    assert [head["number"] for head in http.get("/_control/checks?repository=acme/web&base=next").json()["heads"]] == [
        2
    ]


def test_queued_pull_request_is_seeded_with_its_group(http: httpx.Client) -> None:
    queued = {"queued": True, "checks": {CHECK: "success", "ci": "success"}, "groupChecks": {CHECK: "success"}}
    web = {
        "name": "web",
        "requiredChecks": {"main": CHECK, "ma*": "ci"},
        "mergeQueues": {"main": "ALLGREEN"},
        "pullRequests": [queued, {"autoMerge": True}],
    }
    http.post("/_control/seed", json={"organizations": [{"login": "acme", "repositories": [web]}]})
    first, second, group = http.get("/_control/checks?details=true").json()["heads"]
    assert (first["inQueue"], first["autoMerge"], second["inQueue"], second["autoMerge"]) == (True, False, False, True)
    assert (group["queued"], group["number"], group["checks"].keys()) == (True, 1, {CHECK})


def test_check_writes_are_read_after_a_given_number(http: httpx.Client, github: FakeGitHub) -> None:
    http.post("/_control/seed", json=SEED)
    web, sha = github.world.repository_named("acme/web"), github.world.repository_named("acme/web").pulls[1].head_sha
    bot = Actor(github.world.accounts[github.app.bot_id], github.app_id)
    for conclusion in ("success", "failure"):
        with github.world.lock:
            create_check_run(
                github.world, bot, github.app_id, web, {"name": CHECK, "head_sha": sha, "conclusion": conclusion}
            )
    first, second = http.get("/_control/writes").json()["writes"]
    assert (first["conclusion"], second["headSha"], first["receivedAt"] <= second["receivedAt"]) == (
        "success",
        sha,
        True,
    )
    assert http.get("/_control/writes?after=1").json()["writes"] == [second]
    assert http.get("/_control/writes?after=2").json()["writes"] == []


def test_calls_are_counted_by_operation(http: httpx.Client) -> None:
    http.post("/_control/seed", json=SEED)
    headers = {"Authorization": "Bearer adas-token"}
    for _ in range(3):
        http.get("/repos/acme/web", headers=headers)
    http.post("/graphql", headers=headers, json={"query": "query Who{viewer{login}}"})
    counted = http.get("/_control/calls?reset=true").json()
    expected = {"GET /repos/{owner}/{repo}": 3, "graphql query Who viewer": 1}
    assert (counted["total"], counted["byOperation"]) == (4, expected)
    assert http.get("/_control/calls").json()["total"] == 0


def test_review_decision_and_mergeability_are_set_by_control(http: httpx.Client, github: FakeGitHub) -> None:
    http.post("/_control/seed", json=SEED)
    body = {"repository": "acme/web", "number": 1, "reviewDecision": "CHANGES_REQUESTED", "mergeable": None}
    assert http.put("/_control/pull-requests", json=body).status_code == 204
    pull = github.world.repository_named("acme/web").pulls[1]
    assert (pull.review_decision, pull.mergeable) == ("CHANGES_REQUESTED", None)


def test_button_of_a_check_is_pressed_by_control(http: httpx.Client, github: FakeGitHub) -> None:
    http.post("/_control/seed", json=SEED)
    web = github.world.repository_named("acme/web")
    button = {"label": "Ask", "description": "Ask for it", "identifier": "ask"}
    fields = {"name": CHECK, "head_sha": web.pulls[1].head_sha, "conclusion": "failure", "actions": [button]}
    create_check_run(
        github.world, Actor(github.world.accounts[github.app.bot_id], github.app_id), github.app_id, web, fields
    )
    body = {"repository": "acme/web", "number": 1, "name": CHECK, "identifier": "ask", "login": "octocat"}
    assert http.post("/_control/buttons", json=body).status_code == 204
    assert http.post("/_control/buttons", json={**body, "identifier": "another"}).status_code == 422
    assert http.post("/_control/buttons", json={**body, "name": "build"}).status_code == 404


def test_settings_are_read_and_changed(http: httpx.Client) -> None:
    assert http.put("/_control/settings", json={"latencyMs": 5}).json()["latencyMs"] == 5
    assert http.get("/_control/settings").json()["latencyMs"] == 5
    assert http.put("/_control/settings", json={"colour": "red"}).status_code == 400
    assert http.get("/_control/nothing").status_code == 404


def test_reset_keeps_only_the_app_and_the_maintainer(http: httpx.Client, github: FakeGitHub) -> None:
    http.post("/_control/seed", json=SEED)
    http.post("/_control/reset")
    assert not github.world.repositories
    user = http.get("/user", headers={"Authorization": "Bearer maintainers-own-token"})
    assert user.json()["login"] == "maintainer"


def test_reset_forgets_webhooks_that_wait_to_be_sent(http: httpx.Client, github: FakeGitHub) -> None:
    http.put("/_control/settings", json={"webhookUrl": "http://127.0.0.1:9/webhooks/github"})
    http.post("/_control/faults", json={"kind": "webhook_delay", "seconds": 60})
    http.post("/_control/installations", json={"account": "acme"})
    assert not github.sender.drain(0)
    http.post("/_control/reset")
    assert github.sender.drain(0)


def test_state_is_saved_after_a_reset(tmp_path: Path) -> None:
    github = FakeGitHub(state=tmp_path / "state.json")
    github.organization("acme")
    github.save()
    github.reset()
    github.organization("globex")
    github.save()
    assert "globex" in FakeGitHub(state=github.state).world.logins


def test_state_of_another_version_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text('{"version": 0}')
    assert list(FakeGitHub(state=file).world.repositories) == []


def test_restored_world_equals_the_saved_world(http: httpx.Client, github: FakeGitHub, tmp_path: Path) -> None:
    http.post("/_control/seed", json=SEED)
    file = tmp_path / "state.json"
    persistence.save(github, file)
    again = FakeGitHub(app_id=4242, state=file, person_token="maintainers-own-token")
    assert json.loads(persistence.dump(again)) == json.loads(persistence.dump(github))
    assert again.world.newest.keys() == github.world.newest.keys()
    assert again.world.open_at.keys() == github.world.open_at.keys()
    assert file.stat().st_mode & 0o777 == 0o600


@contextlib.contextmanager
def running(state: Path, stop: signal.Signals) -> Iterator[httpx.Client]:
    """Run the process, whose socket listens before it prints; stop it with a signal and see it end well."""
    command = [sys.executable, "-m", "tools.fake_github", "--port", "0", "--state", str(state)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            line = process.stdout.readline()
            assert line.startswith("GitHub at ")
            with client_of(line.split()[-1], trust_env=False) as http:
                yield http
            process.send_signal(stop)
            assert process.wait(10) == 0
        finally:
            process.kill()


@pytest.mark.check
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_restart_keeps_the_data(tmp_path: Path, stop: signal.Signals) -> None:
    state = tmp_path / "state.json"
    with running(state, stop) as http:
        http.post("/_control/seed", json=SEED)
        before = http.get("/_control/checks").json()
    with running(state, stop) as http:
        assert http.get("/_control/checks").json() == before
    assert len(before["heads"]) == 43
