"""A database that is restored from a backup releases nothing until an operator has confirmed it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url

from rules.errors import ServiceError
from services.core.database_identity import is_confirmed
from services.core.unit_of_work import SYSTEM_CALLER
from services.restores.preview import preview_release
from services.restores.restores import confirm_restore, notice_restore, record_shown
from tests.conftest import as_libpq, on_database
from tests.harness.engines import owner_engine_of
from tests.harness.github_harness import Builder, Harness
from tests.harness.restores import GRACE
from tests.harness.webhook_queue import disagreements, full_resync
from tools.fake_github.model.records import PullRequest

WEB = {"type": "repositories", "repositories": ["acme/web"]}
API = {"type": "repositories", "repositories": ["acme/api"]}


@pytest.fixture
def database(own_database: str) -> str:
    """Return a database of the test's own, which can be replaced by a backup of it."""
    return own_database


class Backups:
    """Copies of the database while it is in use, which take its place: the service goes on as if nothing happened."""

    def __init__(self, harness: Harness, database: str) -> None:
        self._harness = harness
        self._database = database
        self._name = str(make_url(database).database)
        self._backup = f"backup_{self._name}"

    @contextmanager
    def _maintenance(self) -> Iterator[Callable[..., object]]:
        self._harness.session.close()
        for engine in (
            self._harness.jobs.engine,
            self._harness.uow_factory.engine,
            owner_engine_of(self._database),
        ):
            engine.dispose()
        server = as_libpq(on_database(self._database, "postgres"))
        with psycopg.connect(server, autocommit=True) as connection:
            yield lambda command, *names: connection.execute(sql.SQL(command).format(*map(sql.Identifier, names)))

    def make(self) -> None:
        """Make a backup."""
        with self._maintenance() as run:
            run("CREATE DATABASE {} TEMPLATE {}", self._backup, self._name)

    def restore(self) -> None:
        """Put the backup in the place of the database."""
        with self._maintenance() as run:
            run("DROP DATABASE {} WITH (FORCE)", self._name)
            run("ALTER DATABASE {} RENAME TO {}", self._backup, self._name)


class Scene:
    """`acme/web` was frozen after the backup, a freeze of `acme/api` was lifted, and the backup was restored."""

    def __init__(self, harness: Harness, backups: Backups) -> None:
        self.harness = harness
        freeze = harness.freeze(API)
        harness.run_until_idle()
        backups.make()
        harness.lift(freeze)
        harness.freeze(WEB)
        harness.run_until_idle()
        assert set(harness.conclusions().items()) == {
            ("acme/api#1", "success"),
            ("acme/api#2", "success"),
            ("acme/web#1", "failure"),
            ("acme/web#2", "failure"),
        }
        backups.restore()
        self.writes_before = len(harness.fake_github.calls.writes)

    def released(self) -> list[str]:
        """Return the commits on which a `success` was written since the restore."""
        writes = self.harness.fake_github.calls.writes[self.writes_before :]
        return [write["headSha"] for write in writes if write["conclusion"] == "success"]

    def notice(self) -> bool:
        """Do what a sweeper does every few seconds."""
        noticed = notice_restore(self.harness.jobs)
        self.harness.resync()
        return noticed

    def show(self) -> list[tuple[tuple[str, ...], str | None]]:
        """Show an operator what would be released: pull requests, and what GitHub shows."""
        found = preview_release(self.harness.jobs, self.harness.github)
        assert found.unreadable == []
        with self.harness.jobs.open(SYSTEM_CALLER) as uow:
            record_shown(uow)
        return [(head.pulls, head.shown) for head in found.heads]


@pytest.fixture
def pulls(harness: Harness, build: Builder) -> list[PullRequest]:
    made = build("api", "web")
    harness.run_until_idle()
    return made


@pytest.fixture
def scene(harness: Harness, pulls: list[PullRequest], database: str) -> Scene:
    assert pulls
    return Scene(harness, Backups(harness, database))


class TestBeforeItIsConfirmed:
    def test_nothing_is_released_by_processes_that_ran_before_the_restore(self, scene: Scene) -> None:
        scene.harness.full_resync()  # nothing has been noticed yet: a pass compares by itself
        scene.harness.run_until_idle()
        assert scene.released() == []
        assert scene.harness.conclusions()["acme/web#1"] == "failure"

    def test_nothing_is_released_after_the_restore_was_noticed(self, scene: Scene) -> None:
        assert scene.notice()
        scene.harness.run_until_idle()
        full_resync(scene.harness)
        assert scene.notice()
        assert scene.released() == []
        assert scene.harness.conclusions() == dict.fromkeys(
            ("acme/api#1", "acme/api#2", "acme/web#1", "acme/web#2"), "failure"
        )  # that of api was in force when the backup was made


class TestConfirmation:
    def test_heads_that_would_be_released_are_shown(self, scene: Scene, harness: Harness) -> None:
        scene.notice()
        harness.run_until_idle()
        new = harness.fake_github.organization("acme").repository("web").pull_request(base="main")
        assert scene.show() == [
            (("acme/web#1",), "failure"),
            (("acme/web#2",), "failure"),
            ((f"acme/web#{new.number}",), None),
        ]
        harness.freeze(WEB)  # the operator starts what is missing
        assert scene.show() == []

    def test_heads_follow_the_database_once_it_is_confirmed(self, scene: Scene, harness: Harness) -> None:
        scene.notice()
        harness.run_until_idle()
        scene.show()
        confirm_restore(harness.jobs, by=GRACE)
        harness.resync()
        harness.run_until_idle()
        assert disagreements(harness) == {}
        assert len(scene.released()) == 2
        assert not scene.notice()
        entries = harness.sql(
            "SELECT action, actor ->> 'name', details ->> 'difference' FROM audit_entries "
            "WHERE action LIKE 'service.%' ORDER BY id"
        )
        assert [tuple(entry)[:2] for entry in entries] == [
            ("service.restored", "Change-Freeze Service"),
            ("service.restore_confirmed", GRACE),
        ]
        assert entries[0][2].startswith("it is another database of the cluster")

    def test_backup_made_before_the_confirmation_counts_as_restored_again(
        self, scene: Scene, harness: Harness, database: str
    ) -> None:
        scene.notice()
        backups = Backups(harness, database)
        backups.make()
        scene.show()
        confirm_restore(harness.jobs, by=GRACE)
        backups.restore()
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            assert not is_confirmed(uow.session)
        assert scene.notice()
        with pytest.raises(ServiceError, match="restore show"):
            confirm_restore(harness.jobs, by=GRACE)
