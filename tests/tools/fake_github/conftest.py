"""A simulated GitHub of its own for every test, and githubkit's typed clients on it."""

from collections.abc import Iterator
from typing import Any

import pytest
from githubkit import AppAuthStrategy, AppInstallationAuthStrategy, GitHub, TokenAuthStrategy
from githubkit.cache import MemCacheStrategy

from tests.harness.app_key import AppKey
from tools.fake_github import FakeGitHub, Handle
from tools.fake_github.webhook_receiver import GitHubWebhookReceiver

APP_ID = 4242
PERSON_TOKEN = "maintainers-own-token"
SECRET = "It's a Secret to Everybody"


@pytest.fixture
def handle(fake_github_server: Handle, app_key: AppKey) -> Iterator[Handle]:
    github = FakeGitHub(app_id=APP_ID, app_public_key=app_key.public, person_token=PERSON_TOKEN, webhook_secret=SECRET)
    fake_github_server.replace(github)
    yield fake_github_server
    github.sender.stop()


@pytest.fixture
def github(handle: Handle) -> FakeGitHub:
    return handle.github


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
