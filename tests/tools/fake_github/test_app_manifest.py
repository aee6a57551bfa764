"""Registration of an App from a manifest, as GitHub's page and GitHub's OpenAPI description say it."""

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import orjson
import pytest
from githubkit import GitHub
from githubkit.exception import RequestFailed

from rules.rulesets.app_permissions import manifest_of
from tests.tools.fake_github.conftest import client
from tools.fake_github import FakeGitHub, Handle

BACK = "http://127.0.0.1:1/registered"
MANIFEST = manifest_of(
    "Freezes",
    base_url="https://api.example",
    web_url="https://web.example",
    redirect_url=BACK,
    public=False,
    writes_rulesets=False,
)


def register(handle: Handle, manifest: dict[str, Any], page: str = "/settings/apps/new") -> httpx.Response:
    fields = {"manifest": orjson.dumps(manifest).decode()}
    return httpx.post(f"{handle.base_url}{page}?state=abc", data=fields)


def code_of(answer: httpx.Response) -> str:
    assert answer.status_code == 302, answer.text
    location = answer.headers["location"]
    assert location.startswith(f"{BACK}?")
    given = parse_qs(urlsplit(location).query)
    assert given["state"] == ["abc"]
    return given["code"][0]


@pytest.mark.parametrize("page", ["/settings/apps/new", "/organizations/acme/settings/apps/new"])
def test_manifest_becomes_an_app_whose_answer_githubkit_parses(handle: Handle, github: FakeGitHub, page: str) -> None:
    kit: GitHub[Any] = client(handle.base_url, None)
    code = code_of(register(handle, MANIFEST, page))
    app: Any = kit.rest.apps.create_from_manifest(code).parsed_data
    assert (app.id, app.slug, app.permissions.model_dump()["checks"]) == (github.app.id, "freezes", "write")
    assert "administration" not in (github.app.permissions or {})
    assert app.webhook_secret == github.settings.webhook_secret
    assert github.settings.webhook_url == "https://api.example/webhooks/github"
    assert app.pem.startswith("-----BEGIN RSA PRIVATE KEY-----")
    with pytest.raises(RequestFailed, match="404"):
        kit.rest.apps.create_from_manifest(code)


def test_code_of_a_manifest_ends_after_an_hour(
    handle: Handle, github: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, now = code_of(register(handle, MANIFEST)), github.world.clock()
    monkeypatch.setattr(github.world, "clock", lambda: now + timedelta(hours=1))
    assert httpx.post(f"{handle.base_url}/app-manifests/{code}/conversions").status_code == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": None},
        {"redirect_url": "javascript:1"},
        {"setup_url": "https://web.example/setup"},
        {"default_permissions": {"unknown": "read"}},
        {"default_events": ["installation"]},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_invalid_manifest_is_refused(handle: Handle, wrong: dict[str, Any]) -> None:
    assert register(handle, {**MANIFEST, **wrong}).status_code == 422
