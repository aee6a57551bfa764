"""An organisation with repositories at the simulated GitHub, and a reconciler between the two."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from jobs import context
from jobs.context import Context
from jobs.sweep import Sweeper
from tests import factories
from tests.harness.app_key import AppKey
from tests.harness.github_harness import Builder, Harness, make_harness
from tests.harness.scenes import Scenes
from tests.harness.sessions import owner_session
from tools.fake_github import FakeGitHub, Handle
from tools.fake_github.model.records import PullRequest

SECRET = "a secret of the webhooks"
NEVER = timedelta(days=1000)
SweeperOf = Callable[..., Sweeper]
EnterScene = Callable[[Callable[[], object]], None]


@pytest.fixture(scope="session")
def scenes(shared_database: psycopg.Connection[Any]) -> Scenes:
    return Scenes(shared_database)


@pytest.fixture
def enter_scene(scenes: Scenes, harness: Harness) -> EnterScene:
    """Have the harness as a function leaves it, which is called for the first of the tests that begin with this."""
    return partial(scenes.enter, harness)


@pytest.fixture
def fake_github(fake_github_server: Handle, app_key: AppKey) -> Iterator[Handle]:
    """Serve a simulated GitHub of the test's own."""
    fake_github_server.replace(FakeGitHub(app_public_key=app_key.public, webhook_secret=SECRET))
    yield fake_github_server
    fake_github_server.github.sender.stop()


@pytest.fixture
def harness(fake_github: Handle, database: str, app_key: AppKey) -> Iterator[Harness]:
    with owner_session(database) as session:
        acme = factories.organization(session)
        session.commit()
        yield make_harness(
            fake_github.github,
            fake_github.base_url,
            session=session,
            organization=acme,
            database=database,
            app_private_key=app_key.private,
            webhook_secret=SECRET,
        )


@pytest.fixture
def job_context(harness: Harness) -> Iterator[Context]:
    """Have jobs run in this process, on the database and the GitHub of the harness."""
    context.set_context(Context(harness.jobs, harness.github, harness.reconciler, lambda _name: None))
    yield context.get_context()
    context._contexts.clear()


@pytest.fixture
def sweeper(harness: Harness, job_context: Context) -> SweeperOf:
    """Make sweepers whose workers can be woken, or not."""

    def make(*, workers_available: bool = True, full_pass_every: timedelta = NEVER) -> Sweeper:
        return Sweeper(job_context, lambda: workers_available, full_pass_every)

    make().sweep()  # takes the chores that a new database has due
    harness.woken.clear()
    return make


@pytest.fixture
def build(harness: Harness) -> Builder:
    """Add repositories of acme with pull requests, required checks and watched branches, on both sides."""

    def repositories(*names: str, pulls: int = 2, branch: str = "main") -> list[PullRequest]:
        made: list[PullRequest] = []
        organization = harness.fake_github.organization("acme")
        for name in names:
            repository = organization.repository(name)
            repository.requires(f"change-freeze/{branch}", branch)
            made += [repository.pull_request(base=branch) for _ in range(pulls)]
        installed = organization.installed()
        for name in names:
            record = organization.repository(name).record
            row = (
                factories.repository(
                    harness.session,
                    harness.organization,
                    f"acme/{name}",
                    github_id=record.id,
                    node_id=record.node_id,
                )
                if harness.branches
                else _first(harness, name, record.id, record.node_id, installed.id)
            )
            harness.branches[f"acme/{name}"] = factories.branch(
                harness.session, row, branch, due_at=factories.now(), wanted_generation=1
            )
        harness.session.commit()
        return made

    return repositories


def _first(harness: Harness, name: str, github_id: int, node_id: str, installation_id: int) -> Any:
    permissions = dict(harness.fake_github.world.installations[installation_id].permissions)
    factories.installation(harness.session, harness.organization, "acme", id=installation_id, permissions=permissions)
    return factories.repository(
        harness.session, harness.organization, f"acme/{name}", github_id=github_id, node_id=node_id
    )
