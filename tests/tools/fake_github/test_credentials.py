"""Who may call: the App by its JWT, installations by tokens that end, people by theirs."""

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import jwt
import pytest

from tests.harness.app_key import AppKey
from tests.harness.servers import client_of
from tools.fake_github import FakeGitHub, Handle

APP_ID = 4242


@pytest.fixture
def http(handle: Handle, github: FakeGitHub) -> Iterator[httpx.Client]:
    github.organization("acme").repository("web")
    github.organization("acme").repository("api")
    github.organization("acme").installed(installation_id=1001)
    with client_of(handle.base_url, trust_env=False) as client:
        yield client


def app_token(key: str, *, life: int = 300, **changes: object) -> str:
    now = int(time.time())
    return jwt.encode({"iat": now - 60, "exp": now + life, "iss": str(APP_ID)} | changes, key, algorithm="RS256")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def mint(http: httpx.Client, key: str, **narrowed: Any) -> dict[str, Any]:
    answer = http.post("/app/installations/1001/access_tokens", headers=bearer(app_token(key)), json=narrowed)
    assert answer.status_code == 201
    shown: dict[str, Any] = answer.json()
    return shown


def test_app_is_authenticated_by_its_signed_token(http: httpx.Client, app_key: AppKey) -> None:
    assert http.get("/app", headers=bearer(app_token(app_key.private))).json()["id"] == APP_ID


@pytest.mark.parametrize("body", [b"", b"{}", b"null"])
def test_installation_token_is_minted_without_a_body(http: httpx.Client, app_key: AppKey, body: bytes) -> None:
    headers = bearer(app_token(app_key.private)) | {"Content-Type": "application/json"}
    answer = http.post("/app/installations/1001/access_tokens", headers=headers, content=body)
    assert (answer.status_code, answer.json()["repository_selection"]) == (201, "all")


@pytest.mark.parametrize(
    ("changes", "status", "expected"),
    [
        ({"life": 1200}, 401, "too far in the future"),
        ({"life": -5}, 401, "('exp')"),
        ({"iat": time.time() + 3600}, 401, "('iat')"),
        ({"iss": "77"}, 404, "Integration not found"),
        ({"iss": "change-freeze"}, 404, "Integration not found"),
    ],
)
def test_app_token_with_invalid_times_or_issuer_is_rejected(
    http: httpx.Client, app_key: AppKey, changes: dict[str, Any], status: int, expected: str
) -> None:
    answer = http.get("/app", headers=bearer(app_token(app_key.private, **changes)))
    assert answer.status_code == status
    assert expected in answer.json()["message"]


def test_app_token_with_wrong_or_no_signature_is_rejected(http: httpx.Client) -> None:
    now = int(time.time())
    claims = {"iat": now, "exp": now + 300, "iss": str(APP_ID)}
    for token in (jwt.encode(claims, "a shared secret of some length, sure", algorithm="HS256"), "a.b.c"):
        answer = http.get("/app", headers=bearer(token))
        assert (answer.status_code, answer.json()["message"]) == (401, "A JSON web token could not be decoded")


def test_installation_token_expires_after_an_hour(http: httpx.Client, github: FakeGitHub, app_key: AppKey) -> None:
    token = mint(http, app_key.private)["token"]
    assert http.get("/installation/repositories", headers=bearer(token)).json()["total_count"] == 2
    clock = github.world.clock
    github.world.clock = lambda: clock() + timedelta(hours=1)
    answer = http.get("/installation/repositories", headers=bearer(token))
    assert (answer.status_code, answer.json()["message"]) == (401, "Bad credentials")


def test_malformed_basic_credential_is_rejected(http: httpx.Client) -> None:
    answer = http.get("/user", headers={"Authorization": "Basic %%%"})
    assert (answer.status_code, answer.json()["message"]) == (401, "Bad credentials")


def test_forged_installation_token_is_rejected(http: httpx.Client, app_key: AppKey) -> None:
    token = mint(http, app_key.private)["token"]
    signature = token.rindex(".") + 1
    changed = token[:signature] + "AB"[token[signature] == "A"] + token[signature + 1 :]
    for forged in (changed, "ghs_4242_e30.AAAA", "ghs_", "nobody"):
        assert http.get("/installation/repositories", headers=bearer(forged)).status_code == 401
    assert http.get("/installation/repositories").json()["message"] == "Requires authentication"


def test_installation_token_can_be_narrowed_but_not_widened(http: httpx.Client, app_key: AppKey) -> None:
    narrow = mint(http, app_key.private, repositories=["web"], permissions={"metadata": "read"})
    headers = bearer(narrow["token"])
    assert narrow["repository_selection"] == "selected"
    assert http.get("/repos/acme/web", headers=headers).status_code == 200
    assert http.get("/repos/acme/api", headers=headers).status_code == 404
    assert http.get("/repos/acme/web/pulls", headers=headers).status_code == 403
    wide = {"permissions": {"contents": "admin"}}
    route = "/app/installations/1001/access_tokens"
    assert http.post(route, headers=bearer(app_token(app_key.private)), json=wide).status_code == 422
    assert http.post(route, headers=bearer(app_token(app_key.private)), json={"repositories": ["x"]}).status_code == 422


def test_token_of_a_suspended_or_removed_installation_is_rejected(http: httpx.Client, app_key: AppKey) -> None:
    token = mint(http, app_key.private)["token"]

    def after(action: str) -> tuple[int, str]:
        http.post("/_control/installations", json={"action": action, "id": 1001})
        answer = http.get("/repos/acme/web", headers=bearer(token))
        return answer.status_code, answer.json().get("message")

    assert after("suspend") == (403, "This installation has been suspended")
    assert after("unsuspend")[0] == 200
    assert after("delete") == (401, "Bad credentials")
    key = app_key.private
    assert http.post("/app/installations/1001/access_tokens", headers=bearer(app_token(key))).status_code == 404


def test_app_token_cannot_read_a_repository(http: httpx.Client, app_key: AppKey) -> None:
    headers = bearer(app_token(app_key.private))
    assert http.get("/repos/acme/web/pulls", headers=headers).status_code == 403
    assert http.post("/graphql", headers=headers, json={"query": "{viewer{login}}"}).status_code == 403


@pytest.mark.parametrize(("version", "status"), [("2026-03-10", 200), ("2022-11-28", 200), ("2020-01-01", 400)])
def test_unknown_api_version_is_rejected(http: httpx.Client, github: FakeGitHub, version: str, status: int) -> None:
    headers = bearer("maintainers-own-token") | {"X-GitHub-Api-Version": version}
    answer = http.get("/repos/acme/web", headers=headers)
    assert answer.status_code == status
    assert answer.headers["x-github-request-id"]
    if status == 200:
        assert answer.headers["x-github-api-version-selected"] == version


def test_request_without_user_agent_or_with_malformed_json_is_rejected(http: httpx.Client) -> None:
    headers = bearer("maintainers-own-token")
    assert http.get("/repos/acme/web", headers=headers | {"User-Agent": ""}).status_code == 403
    broken = http.post("/repos/acme/web/pulls", headers=headers, content=b"{")
    assert (broken.status_code, broken.json()["message"]) == (400, "Problems parsing JSON")
    assert http.post("/graphql", headers=headers, content=b"{").status_code == 400
    assert http.get("/nothing/here", headers=headers).json()["status"] == "404"
