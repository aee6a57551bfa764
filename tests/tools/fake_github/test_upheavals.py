"""What happens to an installed App at GitHub, each with the webhooks that tell of it."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from githubkit import GitHub

from tests.harness.servers import client_of
from tools.fake_github import FakeGitHub, Handle
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.webhook_receiver import GitHubWebhookReceiver

PERSON = {"Authorization": "Bearer maintainers-own-token"}
RULESET: dict[str, Any] = {
    "name": "Ours",
    "enforcement": "active",
    "conditions": {"ref_name": {"include": ["~DEFAULT_BRANCH"], "exclude": []}},
    "rules": [{"type": "deletion"}],
}


@pytest.fixture
def web(github: FakeGitHub, bot: GitHub[Any], receiver: GitHubWebhookReceiver) -> RepositoryBuilder:
    github.organization("globex")
    return github.organization("acme").repository("web", branches=("next",))


@pytest.fixture
def http(handle: Handle, web: RepositoryBuilder) -> Iterator[httpx.Client]:
    with client_of(handle.base_url, headers=PERSON, trust_env=False) as client:
        yield client


def seen(github: FakeGitHub, receiver: GitHubWebhookReceiver) -> list[str]:
    """Return `event.action` of what arrived since the last call."""
    github.sender.drain()
    found = sorted(receiver.names())
    receiver.deliveries.clear()
    return found


def install(http: httpx.Client, action: str, **more: Any) -> int:
    """Change the installation in acme."""
    return http.post("/_control/installations", json={"action": action, "account": "acme", **more}).status_code


def test_repository_made_again_under_its_name_is_another_one(
    github: FakeGitHub, web: RepositoryBuilder, http: httpx.Client, receiver: GitHubWebhookReceiver
) -> None:
    pull = web.merge_queue().pull_request()
    assert http.delete("/repos/acme/web").status_code == 204
    assert seen(github, receiver) == ["repository.deleted"]
    again = http.post("/orgs/acme/repos", json={"name": "web"}).json()
    assert seen(github, receiver) == ["installation_repositories.added", "repository.created"]
    assert again["id"] != web.record.id
    assert http.get(f"/repos/acme/web/pulls/{pull.number}").status_code == 404
    assert http.get("/repos/acme/web/rulesets").json() == []


def test_repository_is_renamed_and_back(
    github: FakeGitHub, web: RepositoryBuilder, http: httpx.Client, receiver: GitHubWebhookReceiver
) -> None:
    for name, new in (("web", "site"), ("site", "web")):
        assert http.patch(f"/repos/acme/{name}", json={"name": new}).json()["id"] == web.record.id
        assert seen(github, receiver) == ["repository.renamed"]


def test_repository_is_transferred_away_and_back(
    github: FakeGitHub, web: RepositoryBuilder, http: httpx.Client, receiver: GitHubWebhookReceiver
) -> None:
    web.ruleset(**RULESET)
    assert http.post("/repos/acme/web/transfer", json={"new_owner": "globex"}).status_code == 202
    assert seen(github, receiver) == ["installation_repositories.removed"]
    assert http.post("/repos/globex/web/transfer", json={"new_owner": "acme"}).status_code == 202
    assert seen(github, receiver) == ["installation_repositories.added", "repository.transferred"]
    shown = http.get("/repos/acme/web/rulesets").json()
    assert [(found["name"], found["source"]) for found in shown] == [("Ours", "acme/web")]


def test_default_branch_is_changed(
    github: FakeGitHub, web: RepositoryBuilder, http: httpx.Client, receiver: GitHubWebhookReceiver
) -> None:
    web.ruleset(**RULESET)
    assert http.patch("/repos/acme/web", json={"default_branch": "next"}).status_code == 200
    assert seen(github, receiver) == ["repository.edited"]
    assert http.get("/repos/acme/web/rules/branches/main").json() == []
    assert http.get("/repos/acme/web/rules/branches/next").json() != []


def test_rulesets_of_an_organization_keep_administrators_from_changing_the_default_branch(
    github: FakeGitHub, web: RepositoryBuilder, http: httpx.Client
) -> None:
    github.world.tokens["token of ada"] = web.person("ada", "admin")
    conditions = {**RULESET["conditions"], "repository_name": {"include": ["~ALL"], "exclude": []}}
    github.organization("acme").ruleset(**RULESET | {"conditions": conditions})
    ada = {"Authorization": "Bearer token of ada"}
    assert http.patch("/repos/acme/web", headers=ada, json={"default_branch": "next"}).status_code == 422
    assert http.patch("/repos/acme/web", json={"default_branch": "next"}).status_code == 200


def test_ruleset_is_edited_disabled_and_deleted_by_a_person(
    github: FakeGitHub, web: RepositoryBuilder, http: httpx.Client, receiver: GitHubWebhookReceiver
) -> None:
    for path in ("/repos/acme/web/rulesets", "/orgs/acme/rulesets"):
        names = {"repository_name": {"include": ["~ALL"], "exclude": []}} if "orgs" in path else {}
        body = RULESET | {"conditions": {**RULESET["conditions"], **names}}
        number = http.post(path, json=body).json()["id"]
        assert seen(github, receiver) == ["repository_ruleset.created"]
        for change in ({"rules": [{"type": "creation"}]}, {"enforcement": "disabled"}):
            assert http.put(f"{path}/{number}", json={**body, **change}).status_code == 200
            assert seen(github, receiver) == ["repository_ruleset.edited"]
        assert http.delete(f"{path}/{number}").status_code == 204
        assert seen(github, receiver) == ["repository_ruleset.deleted"]


def test_app_is_suspended_and_works_again(
    github: FakeGitHub, web: RepositoryBuilder, http: httpx.Client, receiver: GitHubWebhookReceiver
) -> None:
    token, _ = github.credentials.mint(github.world.installations[1001], {"metadata": "read"}, None)
    app = {"Authorization": f"Bearer {token}"}
    for action, status in (("suspend", 403), ("unsuspend", 200)):
        assert install(http, action) == 200
        assert seen(github, receiver) == [f"installation.{action}"]
        assert http.get("/repos/acme/web", headers=app).status_code == status
        http.patch("/repos/acme/web", json={"archived": action == "suspend"})
        assert seen(github, receiver) == ([] if action == "suspend" else ["repository.unarchived"])


def test_app_is_uninstalled_and_installed_again_as_another_installation(
    github: FakeGitHub, web: RepositoryBuilder, http: httpx.Client, receiver: GitHubWebhookReceiver
) -> None:
    token, _ = github.credentials.mint(github.world.installations[1001], {"metadata": "read"}, None)
    assert install(http, "delete") == 200
    assert seen(github, receiver) == ["installation.deleted"]
    assert http.get("/repos/acme/web", headers={"Authorization": f"Bearer {token}"}).status_code == 401
    assert install(http, "create") == 201
    assert seen(github, receiver) == ["installation.created"]
    assert 1001 not in github.world.installations


def test_withdrawn_permission_is_withdrawn_from_tokens_too(
    github: FakeGitHub, web: RepositoryBuilder, http: httpx.Client, receiver: GitHubWebhookReceiver
) -> None:
    permissions = {"metadata": "read", "checks": "write"}
    token, _ = github.credentials.mint(github.world.installations[1001], permissions, None)
    report = {"name": "ours", "head_sha": web.record.branches["main"], "conclusion": "success"}
    for level, status in (("write", 201), ("read", 403)):
        assert install(http, "permissions", permissions={**permissions, "checks": level}) == 200
        assert seen(github, receiver) == ["installation.new_permissions_accepted"]
        made = http.post("/repos/acme/web/check-runs", headers={"Authorization": f"Bearer {token}"}, json=report)
        assert made.status_code == status
        seen(github, receiver)


def test_only_administrators_change_a_repository(web: RepositoryBuilder, http: httpx.Client) -> None:
    web.github.world.tokens["token of ada"] = web.person("ada", "write")
    ada = {"Authorization": "Bearer token of ada"}
    assert http.patch("/repos/acme/web", headers=ada, json={"name": "site"}).status_code == 403
    assert http.get("/repos/acme/web", headers=ada).status_code == 200
