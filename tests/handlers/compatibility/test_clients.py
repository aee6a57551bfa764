"""What public clients of the classic service send, byte for byte, and what they read of the answers."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from sqlalchemy.orm import Session

from models.repositories import Repository, WatchedBranch
from tests import factories
from tests.handlers.compatibility.requests import PREFIX, ClassicClient, shown
from tests.handlers.freezes.requests import in_hours
from tools.fake_github import FakeGitHub

MASTER = "/branches/acme/web/master/"


@pytest.fixture
def master(session: Session, repository: Repository) -> WatchedBranch:
    return factories.branch(session, repository, "master")


def test_curl_of_a_bash_script_freezes_and_unfreezes(client: ClassicClient, master: WatchedBranch) -> None:
    assert shown(client.post(b"frozen=true&user_name=ada", MASTER))["frozen"] is True
    assert client.state(MASTER)["frozen_by"] == "ada"
    assert shown(client.post(b"frozen=false&user_name=ada", MASTER))["frozen"] is False


def test_circleci_script_with_blanks_around_ampersand_freezes(client: ClassicClient, web: WatchedBranch) -> None:
    answer = client.change(b"frozen=true & user_name=circleci")
    assert (answer["frozen"], answer["frozen_by"]) == (True, "circleci")


def test_jenkins_job_unfreezes_with_unblocked_prs(client: ClassicClient, web: WatchedBranch) -> None:
    client.change(b"frozen=true&user_name=Scooby Doo")
    assert client.state()["frozen_by"] == "Scooby Doo"
    assert client.change(b"frozen=false&unblocked_prs=[5]")["frozen"] is False


def test_rollout_watcher_is_answered_200_without_content_type(client: ClassicClient, web: WatchedBranch) -> None:
    healthy = b"frozen=false&user_name=Argo Rollout Bot&note=Rollout phase is Healthy"
    paused = b"frozen=true&user_name=Argo Rollout Bot&note=Rollout phase is Paused"
    for body, frozen in ((healthy, False), (healthy, False), (paused, True), (paused, True), (healthy, False)):
        answer = shown(client.post(body, content_type=None))
        assert answer["frozen"] is frozen
        assert answer["note"] == ("Rollout phase is Paused" if frozen else None)


def test_status_board_reads_five_branches_at_once(client: ClassicClient, web: WatchedBranch) -> None:
    client.change(b"frozen=true&user_name=ada")
    with ThreadPoolExecutor(5) as pool:
        answers = [shown(one) for one in pool.map(lambda _: client.get(), range(5))]
    assert [(one["frozen"], one["frozen_by"]) for one in answers] == [(True, "ada")] * 5


def test_website_lets_pull_requests_through_with_json_and_no_frozen(
    client: ClassicClient, repository: Repository, web: WatchedBranch
) -> None:
    for number in (7, 9):
        factories.pull_request(client.session, repository, number, head_sha=factories.sha(number))
    path = "/branches/acme/web/main"
    client.change(b"frozen=true&user_name=release")
    answer = client.post(
        b'{"user_name": "fleet-release", "unblocked_prs": [7, 9]}', path, content_type="application/json"
    )
    assert (shown(answer)["frozen"], answer.json()["unblocked_prs"]) == (True, [7, 9])
    assert client.state(path)["unblocked_prs"] == [7, 9]


def test_menu_plugin_reads_lists_of_the_account(client: ClassicClient, web: WatchedBranch, api: WatchedBranch) -> None:
    client.change(b"frozen=true&user_name=ada")
    lists = shown(client.get("/branches/acme"))
    assert [one["name"] for one in lists["frozen"]] == ["web"]
    assert [one["name"] for one in lists["unfrozen"]] == ["api"]
    for one in (*lists["frozen"], *lists["unfrozen"]):
        assert one["url"].startswith("http")
        assert {"next_freeze_at", "next_unfreeze_at"} <= one.keys()


def test_deploy_gate_reads_seconds_or_null(client: ClassicClient, web: WatchedBranch) -> None:
    calm = client.state()
    assert (calm["next_freeze_at"], calm["next_unfreeze_at"]) == (None, None)
    end = in_hours(2)
    scope = {"type": "branch", "branchId": web.id}
    client.acme.key().post("/v1/freezes", {"scope": scope, "reason": "Until two hours from now", "endsAt": end})
    assert isinstance(client.state()["next_unfreeze_at"], int)


@pytest.mark.parametrize("path", ["release/1.2", "release%2F1.2", "release/1.2/", "release%2F1.2/", "release%2f1%2E2"])
def test_branch_with_a_slash_is_found_in_each_spelling(
    client: ClassicClient, repository: Repository, path: str
) -> None:
    factories.branch(client.session, repository, "release/1.2")
    answer = shown(client.get(f"/branches/acme/web/{path}"))
    assert (answer["branch"], answer["repository"], answer["frozen"]) == ("release/1.2", "acme/web", False)
    assert shown(client.post(b"frozen=true", f"/branches/acme/web/{path}"))["frozen"] is True


def test_token_is_taken_from_form_json_query_and_header(
    http: httpx.Client, client: ClassicClient, web: WatchedBranch
) -> None:
    address = f"{PREFIX}/branches/acme/web/main/"
    form = f"frozen=true&access_token={client.token}".encode()
    shown(http.post(address, content=form))
    shown(http.post(address, json={"frozen": False, "access_token": client.token}))
    shown(http.get(address, headers={"Authorization": f"Bearer {client.token}"}))
    shown(http.get(f"{address}?access_token={client.token}", headers={"Authorization": f"Bearer {client.token}"}))
    shown(http.get(f"{address}?access_token=%20{client.token}+", headers={"Authorization": "Basic dXNlcjpwYXNz"}))


def test_account_and_repository_match_in_any_case_and_by_former_names(
    client: ClassicClient, repository: Repository, web: WatchedBranch
) -> None:
    assert client.state("/branches/ACME/Web/main")["repository"] == "acme/web"
    repository.name = "site"
    client.session.flush()
    client.session.commit()
    assert client.state("/branches/acme/web/main")["repository"] == "acme/site"


def test_branch_is_read_and_changed_while_github_is_unavailable(
    client: ClassicClient, fake_github: FakeGitHub, web: WatchedBranch
) -> None:
    fake_github.world.installations.pop(client.acme.installation.id)
    assert client.change(b"frozen=true")["frozen"] is True
    assert [one["name"] for one in shown(client.get("/branches/acme"))["frozen"]] == ["web"]
    assert client.change(b"frozen=false")["frozen"] is False


def test_branches_answer_has_every_field_of_the_classic_service(
    client: ClassicClient, client_with: Callable[..., ClassicClient], web: WatchedBranch
) -> None:
    answer = client.state()
    assert isinstance(answer.pop("last_updated"), str)
    assert answer == {
        "branch": "main",
        "repository": "acme/web",
        "organization": "acme",
        "frozen": False,
        "frozen_by": None,
        "note": None,
        "allow_deployments": True,
        "unblocked_prs": [],
        "next_freeze_at": None,
        "next_unfreeze_at": None,
    }
    assert client_with("freeze:read").state()["frozen"] is False
