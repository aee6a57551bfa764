"""The App's JWT and installation tokens: cached, renewed in time, replaced once when refused."""

import time
from email.utils import formatdate

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from integrations.github import ErrorKind, GitHub, GitHubError
from integrations.github.errors import CODES
from tests.harness.concurrency import at_once
from tests.integrations.github.conftest import WallClock
from tests.integrations.github.scripted_server import TOKEN_PATH, Reply, Script, granted

REPOSITORY = "GET /repositories/9"
TOKEN = "POST " + TOKEN_PATH
FOUND = Reply({"id": 9, "node_id": "R_9", "name": "web", "owner": {"login": "acme"}})
REFUSED = Reply({"message": "Bad credentials"}, 401)
INSTALLATION = {
    "id": 7,
    "account": {"login": "acme", "id": 70, "type": "Organization"},
    "repository_selection": "all",
    "permissions": {"checks": "write"},
    "suspended_at": None,
}


def bearer(script: Script, route: str, index: int = -1) -> str:
    return script.asked(route)[index].headers["authorization"].removeprefix("Bearer ")


def test_app_token_is_signed_as_github_requires(github: GitHub, script: Script, private_key: str) -> None:
    script.then("GET /app", Reply({"slug": "change-freeze"}))
    before = time.time()
    github.app()
    public = load_pem_private_key(private_key.encode(), None).public_key()
    claims = jwt.decode(bearer(script, "GET /app"), public, algorithms=["RS256"], issuer="42")  # type: ignore[arg-type]
    now = time.time()
    assert before - 61 < claims["iat"] <= now - 60
    assert now < claims["exp"] <= now + 600
    assert claims["exp"] - claims["iat"] <= 600


def test_every_call_has_api_version_and_user_agent(github: GitHub, script: Script) -> None:
    script.then("GET /app", Reply({}))
    github.app()
    headers = script.asked("GET /app")[0].headers
    assert headers["x-github-api-version"] == "2026-03-10"
    assert headers["user-agent"] == "change-freeze"
    assert headers["accept"] == "application/vnd.github+json"


def test_app_token_is_cached_and_renewed_before_expiry(github: GitHub, script: Script, clock: WallClock) -> None:
    script.always["GET /app"] = Reply({})
    for clock.offset in (0, 400, 500):
        github.app()
    first, second, third = (bearer(script, "GET /app", index) for index in range(3))
    assert first == second != third


def test_installation_token_is_requested_once_and_cached(github: GitHub, script: Script) -> None:
    script.then(REPOSITORY, FOUND, FOUND)
    github.client(7).repository(9)
    github.client(7).repository(9)
    assert len(script.asked(TOKEN)) == 1
    assert bearer(script, REPOSITORY) == "ghs_secret"


def test_threads_share_one_token_request(github: GitHub, script: Script) -> None:
    script.always[REPOSITORY] = FOUND
    at_once(*[lambda: github.client(7).repository(9)] * 8)
    assert len(script.asked(REPOSITORY)) == 8
    assert len(script.asked(TOKEN)) == 1


def test_installation_token_is_renewed_before_expiry(github: GitHub, script: Script, clock: WallClock) -> None:
    script.then(TOKEN, granted(3600, "ghs_1"), granted(7200, "ghs_2"))
    script.always[REPOSITORY] = FOUND
    github.client(7).repository(9)
    clock.offset = 3400
    github.client(7).repository(9)
    assert bearer(script, REPOSITORY) == "ghs_2"


def test_token_of_any_length_is_accepted(github: GitHub, script: Script) -> None:
    long = "ghs_42_" + "x.Y-z_" * 200
    script.then(TOKEN, granted(value=long))
    script.then(REPOSITORY, FOUND)
    github.client(7).repository(9)
    assert bearer(script, REPOSITORY) == long


def test_rejected_token_is_replaced_once(github: GitHub, script: Script) -> None:
    script.then(TOKEN, granted(value="ghs_1"), granted(value="ghs_2"))
    script.then(REPOSITORY, REFUSED, FOUND)
    assert github.client(7).repository(9).owner == "acme"
    assert [bearer(script, REPOSITORY, index) for index in (0, 1)] == ["ghs_1", "ghs_2"]


def test_rejection_of_a_new_token_is_a_transient_error(github: GitHub, script: Script) -> None:
    script.then(REPOSITORY, REFUSED, REFUSED)
    with pytest.raises(GitHubError) as caught:
        github.client(7).repository(9)
    assert (caught.value.code, caught.value.transient) == ("github_unavailable", True)
    assert len(script.asked(REPOSITORY)) == 2


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (404, "Not Found", ErrorKind.INSTALLATION_REMOVED),
        (403, "This installation has been suspended", ErrorKind.INSTALLATION_SUSPENDED),
        (401, "A JSON web token could not be decoded", ErrorKind.APP_REFUSED),
    ],
)
def test_refused_token_request_says_what_became_of_the_installation(
    github: GitHub, script: Script, status: int, message: str, kind: ErrorKind
) -> None:
    script.then(TOKEN, Reply({"message": message}, status))
    with pytest.raises(GitHubError) as caught:
        github.client(7).repository(9)
    assert (caught.value.code, caught.value.kind) == (CODES[kind], kind)
    assert script.asked(REPOSITORY) == []


def test_restored_installation_works_again(github: GitHub, script: Script) -> None:
    script.then(TOKEN, Reply({"message": "This installation has been suspended"}, 403))
    script.then(REPOSITORY, FOUND)
    with pytest.raises(GitHubError):
        github.client(7).repository(9)
    assert github.client(7).repository(9).name == "web"


@pytest.mark.parametrize("body", [{}, {"token": ""}, {"token": "t", "expires_at": "soon"}, {"token": 3}, []])
def test_unreadable_token_response_is_an_error_of_github(github: GitHub, script: Script, body: object) -> None:
    script.then(TOKEN, Reply(body, 201))
    with pytest.raises(GitHubError) as caught:
        github.client(7).repository(9)
    assert caught.value.code == "github_unavailable"


def test_clock_ten_minutes_off_is_corrected_by_githubs_clock(
    github: GitHub, script: Script, clock: WallClock, private_key: str
) -> None:
    clock.offset = 600
    now = time.time()
    date = {"Date": formatdate(now, usegmt=True)}
    script.then("GET /app", Reply({"message": "'Issued at' claim must not be in the future"}, 401, date), Reply({}))
    github.app()
    public = load_pem_private_key(private_key.encode(), None).public_key()
    claims = jwt.decode(bearer(script, "GET /app"), public, algorithms=["RS256"])  # type: ignore[arg-type]
    assert now - 62 < claims["iat"] <= time.time() - 60


def test_installation_has_its_account(github: GitHub, script: Script) -> None:
    script.then("GET /app/installations/7", Reply(INSTALLATION | {"suspended_at": "2026-11-01T00:00:00Z"}))
    info = github.installation(7)
    assert (info.account_login, info.account_type, info.account_id) == ("acme", "Organization", 70)
    assert info.permissions == {"checks": "write"}
    assert info.suspended_at is not None


def test_unknown_installation_is_reported_as_removed(github: GitHub) -> None:
    with pytest.raises(GitHubError) as caught:
        github.installation(8)
    assert caught.value.code == "installation_removed"


def test_client_is_shared_per_installation(github: GitHub) -> None:
    assert github.client(7) is github.client(7)
    assert github.client(7) is not github.client(8)


def test_token_is_not_renewed_for_permissions_already_granted(github: GitHub, script: Script) -> None:
    script.always[REPOSITORY] = FOUND
    client = github.client(7)
    for _ in range(3):
        client.renew_for({"checks": "write", "metadata": "read"})
        client.repository(9)
    bought = len(script.asked(TOKEN))
    client.renew_for({"checks": "write", "metadata": "read", "contents": "read"})
    client.repository(9)
    assert (bought, len(script.asked(TOKEN))) == (1, 2)
