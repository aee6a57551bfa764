"""Scenes that several tests begin with: built once, kept, and put back for the others.

To build what a reconciler has brought to rest takes a hundred times as long as to put back the rows and the simulated
GitHub that it has led to.
"""

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from models.organizations import Organization
from models.repositories import WatchedBranch
from tests.harness.cleaning import Snapshot
from tests.harness.github_harness import Harness
from tools.fake_github import FakeGitHub

MAX_AGE = 15.0
"""Seconds after which a scene is built again, so that its times are those of a new one."""
_OF_THE_OBJECT = ("clock", "lock", "listeners", "ruleset_delay")
"""What a world is made with, and keeps when it is cleared."""


@dataclass(frozen=True, slots=True)
class _Scene:
    build: str
    built_at: float
    organization: str
    branches: dict[str, str]
    github: bytes
    rows: Snapshot


class Scenes:
    """The scene that was built last; another takes its place."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._last: _Scene | None = None

    def enter(self, harness: Harness, build: Callable[[], object]) -> None:
        """Have the harness as `build` leaves it: by calling it, or as it was left after the last call.

        `build` is the same for each test: it depends on no parameter, and leaves its results in the harness alone.
        """
        name = f"{build.__module__}.{build.__qualname__}"
        assert harness.jobs.engine.url.database == self._connection.info.dbname
        last = self._last
        if last is not None and last.build == name and time.monotonic() < last.built_at + MAX_AGE:
            self._put_back(harness, last)
            return
        build()
        if last is not None:
            last.rows.drop()
        self._last = self._keep(harness, name)

    def _keep(self, harness: Harness, name: str) -> _Scene:
        assert not harness.session.in_transaction()
        assert not harness.fake_github.sender.deliveries, "webhooks of a scene are not kept"
        branches = {key: branch.id for key, branch in harness.branches.items()}
        github, rows = pickle.dumps(_kept_of(harness.fake_github)), Snapshot(self._connection)
        return _Scene(name, time.monotonic(), harness.organization.id, branches, github, rows)

    def _put_back(self, harness: Harness, scene: _Scene) -> None:
        session, github = harness.session, harness.fake_github
        scene.rows.restore()
        session.expunge_all()
        harness.organization = session.get_one(Organization, scene.organization)
        rows = {key: session.get_one(WatchedBranch, branch) for key, branch in scene.branches.items()}
        harness.branches.update(rows)
        session.commit()
        with github.world.lock:
            for owner, state in zip(_owners(github), pickle.loads(scene.github), strict=True):
                for attribute, value in state.items():
                    setattr(owner, attribute, value)
            github.view.repositories.clear()
            github.view.accounts.clear()
            github.register()


def _owners(github: FakeGitHub) -> tuple[object, ...]:
    """Return the objects that hold what is at GitHub, and what was called."""
    return github.world, github.credentials, github.calls


def _kept_of(github: FakeGitHub) -> list[dict[str, Any]]:
    with github.world.lock:
        return [
            {name: value for name, value in vars(owner).items() if name not in {*_OF_THE_OBJECT, "world"}}
            for owner in _owners(github)
        ]
