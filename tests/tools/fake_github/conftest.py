"""A simulated GitHub of its own for every test, and githubkit's typed clients on it."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from githubkit import AppAuthStrategy, AppInstallationAuthStrategy, GitHub, TokenAuthStrategy
from githubkit.cache import MemCacheStrategy
from githubkit.exception import RequestFailed

from tests.harness.app_key import AppKey
from tests.harness.servers import client_of
from tools.fake_github import FakeGitHub, Handle
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.webhook_receiver import GitHubWebhookReceiver

APP_ID = 4242
PERSON_TOKEN = "maintainers-own-token"
SECRET = "It's a Secret to Everybody"
PLACE = ("acme", "web")
CHECK = "change-freeze/main"


def refused(call: Callable[..., object], *given: Any, **more: Any) -> tuple[int, str]:
    """Return status and message of a call that GitHub refuses."""
    with pytest.raises(RequestFailed) as failure:
        call(*given, **more)
    return failure.value.response.status_code, failure.value.response.json()["message"]


def ruleset(*rules: str | dict[str, Any], pattern: str = "~DEFAULT_BRANCH", **more: Any) -> dict[str, Any]:
    """Return an active ruleset of rules, each given as a kind or as a whole."""
    shown = [{"type": rule} if isinstance(rule, str) else rule for rule in rules]
    conditions = {"ref_name": {"include": [pattern], "exclude": []}, **more.pop("conditions", {})}
    name = f"{[rule['type'] for rule in shown]} {pattern}"
    return {"name": name, "enforcement": "active", "conditions": conditions, "rules": shown, **more}


@pytest.fixture
def handle(fake_github_server: Handle, app_key: AppKey) -> Iterator[Handle]:
    github = FakeGitHub(app_id=APP_ID, app_public_key=app_key.public, person_token=PERSON_TOKEN, webhook_secret=SECRET)
    fake_github_server.replace(github)
    yield fake_github_server
    github.sender.stop()


@pytest.fixture
def github(handle: Handle) -> FakeGitHub:
    return handle.github


@pytest.fixture
def http(handle: Handle) -> Iterator[httpx.Client]:
    """Be nobody in particular: requests have the credential that they are given."""
    with client_of(handle.base_url, trust_env=False) as found:
        yield found


@pytest.fixture
def web(github: FakeGitHub, bot: GitHub[Any]) -> RepositoryBuilder:
    return github.organization("acme").repository("web")


def client(base_url: str, auth: Any) -> GitHub[Any]:
    # Its own token cache: githubkit's default one outlives a test, and GitHub that issued the token.
    tokens = MemCacheStrategy()
    return GitHub(auth, base_url=base_url, auto_retry=False, http_cache=False, trust_env=False, cache_strategy=tokens)


@pytest.fixture
def app(handle: Handle, app_key: AppKey) -> GitHub[Any]:
    """Be the App itself, by its JWT."""
    return client(handle.base_url, AppAuthStrategy(str(APP_ID), app_key.private))


@pytest.fixture
def person(handle: Handle) -> GitHub[Any]:
    """Be the maintainer."""
    return client(handle.base_url, TokenAuthStrategy(PERSON_TOKEN))


@pytest.fixture
def bot(handle: Handle, github: FakeGitHub, app_key: AppKey) -> GitHub[Any]:
    """Be the App's installation in acme."""
    found = github.organization("acme").installed(installation_id=1001)
    return client(handle.base_url, AppInstallationAuthStrategy(str(APP_ID), app_key.private, found.id))


@pytest.fixture
def receiver(github: FakeGitHub) -> Iterator[GitHubWebhookReceiver]:
    """Receive what GitHub sends in this test."""
    found = GitHubWebhookReceiver()
    github.settings.webhook_url = found.url
    yield found
    github.settings.webhook_url = None
    github.sender.drain()
    found.stop()
