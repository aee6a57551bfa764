"""A GitHub client, and the scripted server or the simulated GitHub that it talks to."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from integrations.github import BranchRef, CheckWrite, GitHub, GitHubSettings, InstallationClient
from tests.harness.app_key import AppKey
from tests.integrations.github.scripted_server import Script, serving
from tools.fake_github import FakeGitHub, Handle
from tools.fake_github.builder import RepositoryBuilder
from tools.fake_github.model.world import Actor

NAME = "Change freeze / main"


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


@dataclass
class SimulatedGitHub:
    """A GitHub with one organisation, and the App's clients for it."""

    host: FakeGitHub
    web: RepositoryBuilder
    github: GitHub
    client: InstallationClient
    maintainer: Actor

    def write(self, sha: str, conclusion: Any = "failure", external_id: str = "g1", node_id: str = "") -> CheckWrite:
        node_id = node_id or self.web.record.node_id
        return CheckWrite(node_id, NAME, sha, conclusion, "Frozen", "Until Monday", external_id, "https://x.test/f")

    @property
    def main(self) -> BranchRef:
        return BranchRef(self.web.record.node_id, "main")


@pytest.fixture
def simulated(app_key: AppKey, clock: WallClock, fake_github_server: Handle) -> Iterator[SimulatedGitHub]:
    host = FakeGitHub(app_id=42, app_public_key=app_key.public)
    fake_github_server.replace(host)
    acme = host.organization("acme")
    web = acme.repository("web", branches=("release/9",))
    acme.installed(installation_id=7)
    base = fake_github_server.base_url
    github = GitHub(GitHubSettings(base, base + "/graphql", 42, "change-freeze", app_key.private, "hush"), clock)
    yield SimulatedGitHub(host, web, github, github.client(7), Actor(host.maintainer))
    host.sender.stop()
