"""A GitHub client and the scripted server that it talks to."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from integrations.github import GitHub, GitHubSettings
from tests.harness.app_key import AppKey
from tests.integrations.github.scripted_server import Script, serving


@pytest.fixture
def script() -> Iterator[Script]:
    made = Script()
    with serving(made):
        yield made


@pytest.fixture(scope="session")
def private_key(app_key: AppKey) -> str:
    return app_key.private


class WallClock:
    """A wall clock in seconds, as GitHub's client reads it, that tests move."""

    def __init__(self) -> None:
        self.offset = 0.0

    def __call__(self) -> float:
        return datetime.now(UTC).timestamp() + self.offset


@pytest.fixture
def clock() -> WallClock:
    return WallClock()


@pytest.fixture
def settings(script: Script, private_key: str) -> GitHubSettings:
    return GitHubSettings(
        api_url=script.base,
        graphql_url=script.base + "/graphql",
        app_id=42,
        app_slug="change-freeze",
        private_key=private_key,
        webhook_secret="hush",
        deadline_seconds=5.0,
    )


@pytest.fixture
def github(settings: GitHubSettings, clock: WallClock) -> GitHub:
    return GitHub(settings, clock)
