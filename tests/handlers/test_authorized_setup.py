"""A setup that an administrator authorises, over HTTP: from the refusal to the page that the same process serves."""

import re
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from models.enforcement import EnforcementSetup
from models.requests import IdempotencyKey
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.harness.wakeups import RecordedWakeups
from tools.fake_github import FakeGitHub

SETUP, PAGE = "/v1/enforcement/setup", "/enforcement/authorized"
APPLY = {"scope": {"type": "organization"}, "mode": "apply"}
WEB_ORIGIN = "http://127.0.0.1:8080"


@pytest.fixture
def unpermitted(acme: Tenant, session: Session, fake_github: FakeGitHub) -> Tenant:
    """Watch a branch of an organisation whose App may not write rulesets."""
    factories.branch(session, acme.repository("web"))
    register_oauth_client(fake_github)
    fake_github.world.installations[acme.installation.id].permissions = {"metadata": "read", "checks": "write"}
    return acme


def register_oauth_client(fake_github: FakeGitHub) -> None:
    fake_github.oauth.client_id, fake_github.oauth.client_secret = "Iv1.tests", "a secret of the client"


def setups(session: Session) -> int:
    return session.scalar(select(func.count()).select_from(EnforcementSetup)) or 0


def sent_back(address: str) -> dict[str, str]:
    """Authorise at GitHub, and return what the browser is sent back with."""
    answer = httpx.get(address, follow_redirects=False, timeout=10)
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query))


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "one"}], ids=str)
def test_each_refused_apply_opens_a_new_authorization(
    unpermitted: Tenant, session: Session, headers: dict[str, str]
) -> None:
    admin = unpermitted.person("admin")
    shown = [
        refusal(admin.post(SETUP, APPLY, headers=headers), 409, "admin_authorization_required")["details"]
        for _ in range(2)
    ]
    assert shown[0][0]["authorizationUrl"] != shown[1][0]["authorizationUrl"]
    assert setups(session) == 2
    assert unpermitted.audit() == ["enforcement.authorization_requested"] * 2
    assert list(session.scalars(select(IdempotencyKey))) == []


def test_first_setup_is_authorized_recorded_and_written_by_a_job(
    acme: Tenant, fake_github: FakeGitHub, http: httpx.Client, session: Session, wakeups: RecordedWakeups
) -> None:
    register_oauth_client(fake_github)
    repository = acme.repository("web")
    factories.branch(session, repository)
    admin = acme.person("admin")
    error = refusal(admin.post(SETUP, APPLY), 409, "admin_authorization_required")
    page = http.get(PAGE, params=sent_back(error["details"][0]["authorizationUrl"]))
    form = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page.text))
    cookie = page.headers["set-cookie"].partition(";")[0]
    done = http.post(PAGE, data=form, headers={"Origin": WEB_ORIGIN, "Cookie": cookie})
    assert "<h1>Authorised</h1>" in done.text
    assert "setup" in wakeups.sent
    assert admin.get("/v1/enforcement").json()["pending"]["setup"] == 1
    session.refresh(repository)
    assert (repository.rulesets_authorized_by, repository.rulesets_authorized_at is None) == ("maintainer", False)
    assert admin.post(SETUP, APPLY).json()["state"] == "applying"
    assert acme.audit() == [
        "enforcement.authorization_requested",
        "enforcement.authorized",
        "enforcement.setup_requested",
    ]


def sent(http: httpx.Client, page: httpx.Response) -> httpx.Response:
    """Send the form of the page."""
    form = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page.text))
    cookie = page.headers["set-cookie"].partition(";")[0]
    return http.post(PAGE, data=form, headers={"Origin": WEB_ORIGIN, "Cookie": cookie})


def test_authorization_page_applies_the_requested_setup(
    unpermitted: Tenant, fake_github: FakeGitHub, http: httpx.Client, session: Session
) -> None:
    error = refusal(unpermitted.person("admin").post(SETUP, APPLY), 409, "admin_authorization_required")
    session.execute(update(EnforcementSetup).values(progress={}))  # its heads have their verdicts
    page = http.get(PAGE, params=sent_back(error["details"][0]["authorizationUrl"]))
    assert page.status_code == 200
    assert "cannot be deleted" not in page.text
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["x-request-id"].startswith("req_")
    done = sent(http, page)
    assert "<h1>Done</h1>" in done.text
    assert [ruleset.name for ruleset in fake_github.world.rulesets.values()] == ["Change freeze: main"]
    assert fake_github.oauth.tokens == set()


def test_authorized_setup_keeps_the_protection_from_deletion(
    unpermitted: Tenant, fake_github: FakeGitHub, http: httpx.Client, session: Session
) -> None:
    body = {**APPLY, "protectFromDeletion": True}
    error = refusal(unpermitted.person("admin").post(SETUP, body), 409, "admin_authorization_required")
    waits = text("progress - 'headsAskedAt'")
    session.execute(update(EnforcementSetup).values(progress=waits))  # its heads have their verdicts
    page = http.get(PAGE, params=sent_back(error["details"][0]["authorizationUrl"]))
    assert "cannot be deleted any more" in page.text
    sent(http, page)
    [ruleset] = fake_github.world.rulesets.values()
    assert {"type": "deletion"} in ruleset.rules


@pytest.mark.parametrize(("path", "status"), [(PAGE, 400), (PAGE + "?code=x&state=y", 404)])
def test_invalid_authorization_address_shows_an_error_page(http: httpx.Client, path: str, status: int) -> None:
    answer = http.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_unknown_paths_and_methods_beside_the_page_are_refused(http: httpx.Client) -> None:
    refusal(http.get("/enforcement/other"), 404, "not_found")
    refusal(http.delete(PAGE), 405, "method_not_allowed")
