"""People's rights, and the authorisation of a client with PKCE, as GitHub documents them."""

import base64
import hashlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from tests.harness.servers import client_of
from tools.fake_github import FakeGitHub, Handle
from tools.fake_github.model.world import system_clock
from tools.fake_github.oauth import CLIENT_ID, CLIENT_SECRET

BACK = "https://freeze.test/back"
VERIFIER = "a-verifier-of-forty-three-characters-or-more-than-that"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
RULESET = {"name": "Ours", "enforcement": "active", "target": "branch", "rules": [], "conditions": {}}


@pytest.fixture
def http(handle: Handle, github: FakeGitHub) -> Iterator[httpx.Client]:
    github.organization("acme").repository("web")
    github.organization("acme").repository("api")
    with client_of(handle.base_url, trust_env=False) as client:
        yield client


def authorize(http: httpx.Client, **changes: str) -> httpx.Response:
    query = {
        "client_id": CLIENT_ID,
        "redirect_uri": BACK,
        "state": "a state",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        **changes,
    }
    return http.get("/login/oauth/authorize", params=query)


def code_of(answer: httpx.Response) -> str:
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query))["code"]


def exchange(http: httpx.Client, code: str, **changes: str) -> dict[str, Any]:
    body = {
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "code": code,
        "redirect_uri": BACK,
        "code_verifier": VERIFIER,
        **changes,
    }
    answer = http.post("/login/oauth/access_token", json=body)
    assert answer.status_code == 200
    shown: dict[str, Any] = answer.json()
    return shown


def token_of(http: httpx.Client, login: str = "ada") -> dict[str, str]:
    return {"Authorization": f"Bearer {exchange(http, code_of(authorize(http, login=login)))['access_token']}"}


def limit(http: httpx.Client, login: str, **rights: str) -> None:
    named = {name.replace("__", "/"): level for name, level in rights.items()}
    assert http.put("/_control/persons", json={"login": login, "rights": named}).status_code == 204


def test_authorization_redirects_with_code_and_state(http: httpx.Client) -> None:
    answer = authorize(http)
    assert answer.status_code == 302
    assert answer.headers["location"].startswith(BACK + "?code=")
    assert answer.headers["location"].endswith("state=a+state")


def test_unknown_oauth_client_is_rejected(http: httpx.Client) -> None:
    assert authorize(http, client_id="Iv1.other").status_code == 404


def test_code_gives_the_token_of_the_authorizing_user_once(http: httpx.Client) -> None:
    http.put("/_control/settings", json={"authorizingPerson": "grace"})
    code = code_of(authorize(http))
    token = exchange(http, code)["access_token"]
    assert http.get("/user", headers={"Authorization": f"Bearer {token}"}).json()["login"] == "grace"
    assert exchange(http, code)["error"] == "bad_verification_code"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_verifier": "another"}, "bad_verification_code"),
        ({"client_secret": "another"}, "incorrect_client_credentials"),
        ({"redirect_uri": "https://elsewhere.test"}, "redirect_uri_mismatch"),
    ],
)
def test_code_is_bound_to_verifier_secret_and_redirect_address(
    http: httpx.Client, changes: dict[str, str], error: str
) -> None:
    assert exchange(http, code_of(authorize(http)), **changes)["error"] == error


def test_code_is_valid_for_ten_minutes(http: httpx.Client, github: FakeGitHub) -> None:
    code = code_of(authorize(http))
    github.world.clock = lambda: system_clock() + timedelta(minutes=10)
    assert exchange(http, code)["error"] == "bad_verification_code"


def test_revoked_user_token_is_rejected(http: httpx.Client) -> None:
    headers = token_of(http)
    body = {"access_token": headers["Authorization"].removeprefix("Bearer ")}
    address = f"/applications/{CLIENT_ID}/token"
    assert http.request("DELETE", address, json=body).status_code == 401
    assert http.request("DELETE", address, json=body, auth=(CLIENT_ID, CLIENT_SECRET)).status_code == 204
    assert http.get("/user", headers=headers).status_code == 401
    assert http.request("DELETE", address, json=body, auth=(CLIENT_ID, CLIENT_SECRET)).status_code == 404


def test_repository_rulesets_require_an_administrator(http: httpx.Client) -> None:
    limit(http, "ada", acme__web="admin", acme__api="push")
    headers = token_of(http)
    permissions = {
        name: http.get(f"/repos/acme/{name}", headers=headers).json()["permissions"] for name in ("web", "api")
    }
    assert (permissions["web"]["admin"], permissions["api"]["admin"], permissions["api"]["push"]) == (True, False, True)
    assert http.post("/repos/acme/web/rulesets", headers=headers, json=RULESET).status_code == 201
    assert http.post("/repos/acme/api/rulesets", headers=headers, json=RULESET).status_code == 403


def test_organization_rulesets_require_an_owner(http: httpx.Client) -> None:
    limit(http, "ada", acme__web="admin")
    limit(http, "grace", acme="admin")
    body = {**RULESET, "conditions": {"repository_name": {"include": ["~ALL"], "exclude": []}}}
    assert http.post("/orgs/acme/rulesets", headers=token_of(http), json=body).status_code == 404
    assert http.post("/orgs/acme/rulesets", headers=token_of(http, "grace"), json=body).status_code == 201
    assert http.get("/user/memberships/orgs/acme", headers=token_of(http, "grace")).json()["role"] == "admin"
    assert http.get("/user/memberships/orgs/acme", headers=token_of(http)).status_code == 404


def test_repository_without_access_is_not_found(http: httpx.Client) -> None:
    limit(http, "ada", acme__web="pull")
    assert http.get("/repos/acme/api", headers=token_of(http)).status_code == 404
