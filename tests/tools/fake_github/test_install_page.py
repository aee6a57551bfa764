"""The page where a person installs the App, and what a token of the App's own client can list."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from tests.harness.servers import client_of
from tools.fake_github import FakeGitHub, Handle
from tools.fake_github.model.installations import client_id_of
from tools.fake_github.oauth import APP_CLIENT_SECRET, CLIENT_ID, CLIENT_SECRET

BACK = "https://freeze.test/installed"
PAGE = "/apps/change-freeze/installations/new"


@pytest.fixture
def http(handle: Handle, github: FakeGitHub) -> Iterator[httpx.Client]:
    github.organization("acme").repository("web")
    github.organization("globex").repository("shop")
    github.settings.setup_url = BACK
    with client_of(handle.base_url, trust_env=False) as client:
        yield client


def go(http: httpx.Client, **query: str) -> dict[str, str]:
    """Install, and return what the browser is sent back with."""
    answer = http.get(PAGE, params={"state": "a state", **query})
    assert answer.status_code == 302, answer.text
    assert answer.headers["location"].startswith(BACK + "?")
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query))


def exchange(http: httpx.Client, github: FakeGitHub, code: str, *, app_tokens: bool = True) -> dict[str, Any]:
    client_id, secret = (client_id_of(github.app.id), APP_CLIENT_SECRET) if app_tokens else (CLIENT_ID, CLIENT_SECRET)
    body = {"client_id": client_id, "client_secret": secret, "code": code}
    shown: dict[str, Any] = http.post("/login/oauth/access_token", json=body).json()
    return shown


def as_app_for(http: httpx.Client, github: FakeGitHub, login: str) -> dict[str, str]:
    code = github.oauth.give_code(client_id_of(github.app.id), github.world.add_account(login, "User"), BACK)
    return {"Authorization": f"Bearer {exchange(http, github, code)['access_token']}"}


class TestInstallPage:
    def test_install_page_installs_and_redirects_with_code_and_state(
        self, http: httpx.Client, github: FakeGitHub
    ) -> None:
        back = go(http, account="acme")
        assert (back["setup_action"], back["state"]) == ("install", "a state")
        installed = github.world.installations[int(back["installation_id"])]
        assert github.world.accounts[installed.account_id].login == "acme"
        assert exchange(http, github, back["code"])["access_token"].startswith("ghu_")

    def test_install_page_takes_the_next_organization_by_default(self, http: httpx.Client, github: FakeGitHub) -> None:
        numbers = {int(go(http)["installation_id"]) for _ in range(2)}
        accounts = {github.world.accounts[github.world.installations[number].account_id].login for number in numbers}
        assert accounts == {"acme", "globex"}
        assert http.get(PAGE).status_code == 404

    def test_install_page_of_an_installed_app_is_an_update(self, http: httpx.Client) -> None:
        first, second = (go(http, account="acme") for _ in range(2))
        assert first["installation_id"] == second["installation_id"]
        assert second["setup_action"] == "update"

    def test_install_page_lets_a_member_only_request_the_installation(
        self, http: httpx.Client, github: FakeGitHub
    ) -> None:
        github.oauth.rights["grace"] = {"acme": "push"}
        back = go(http, account="acme", login="grace")
        assert back["setup_action"] == "request"
        assert "installation_id" not in back
        assert github.world.installations == {}

    def test_install_page_rejects_accounts_of_others(self, http: httpx.Client, github: FakeGitHub) -> None:
        github.oauth.rights["grace"] = {"globex": "admin"}
        assert http.get(PAGE, params={"account": "acme", "login": "grace"}).status_code == 404
        assert http.get("/apps/another/installations/new").status_code == 404

    def test_install_page_does_not_redirect_without_a_setup_url(self, http: httpx.Client, github: FakeGitHub) -> None:
        github.settings.setup_url = None
        assert http.get(PAGE, params={"account": "acme"}).status_code == 200

    def test_install_page_gives_a_code_bound_to_the_client(self, http: httpx.Client, github: FakeGitHub) -> None:
        back = go(http, account="acme")
        assert exchange(http, github, back["code"], app_tokens=False)["error"] == "bad_verification_code"


class TestUserToken:
    def test_user_token_lists_installations_within_reach(self, http: httpx.Client, github: FakeGitHub) -> None:
        github.organization("acme").installed(installation_id=1001)
        github.organization("globex").installed(installation_id=1002)
        github.oauth.rights["grace"] = {"acme/web": "pull"}
        github.oauth.rights["heidi"] = {}
        shown = {
            login: [found["id"] for found in self.listed(http, as_app_for(http, github, login)).json()["installations"]]
            for login in ("root", "grace", "heidi")
        }
        assert shown == {"root": [1001, 1002], "grace": [1001], "heidi": []}

    def test_only_user_tokens_list_installations(self, http: httpx.Client, github: FakeGitHub) -> None:
        answer = self.listed(http, {"Authorization": f"Bearer {github.person_token}"})
        assert answer.status_code == 403
        assert answer.json()["message"].startswith("You must authenticate with an access token authorized to a GitHub")

    def test_membership_is_readable_with_the_members_permission(self, http: httpx.Client, github: FakeGitHub) -> None:
        headers = as_app_for(http, github, "grace")
        assert http.get("/user/memberships/orgs/acme", headers=headers).status_code == 403
        made = github.organization("acme").installed(installation_id=1001)
        assert http.get("/user/memberships/orgs/acme", headers=headers).json()["role"] == "admin"
        del made.permissions["members"]
        assert http.get("/user/memberships/orgs/acme", headers=headers).status_code == 403

    def test_user_token_is_revoked_only_by_its_client(self, http: httpx.Client, github: FakeGitHub) -> None:
        headers = as_app_for(http, github, "grace")
        body = {"access_token": headers["Authorization"].removeprefix("Bearer ")}
        own, other = (client_id_of(github.app.id), APP_CLIENT_SECRET), (CLIENT_ID, CLIENT_SECRET)
        for client, status in ((other, 404), (own, 204)):
            answer = http.request("DELETE", f"/applications/{client[0]}/token", json=body, auth=client)
            assert answer.status_code == status
        assert self.listed(http, headers).status_code == 401

    def listed(self, http: httpx.Client, headers: dict[str, str]) -> httpx.Response:
        return http.get("/user/installations", headers=headers)
