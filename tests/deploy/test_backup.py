"""Drills: the commands of the page on backups, and what the service notices after each way to restore."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psycopg
import pytest
from sqlalchemy.orm import Session

from app.__main__ import main
from app.commands.migrate import migrate
from app.database import WORKER_ROLE, make_engine
from rules.access.permissions import SYSTEM
from rules.restores import difference
from services.audit.hash_chain import seal_entries
from services.core.clock import DatabaseClock
from services.core.database_identity import IdentityState, read_identity
from services.core.ports import Ports
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import SYSTEM_CALLER, Caller, UnitOfWorkFactory
from services.identity.signing_keys import current_signer
from services.restores.restores import notice_restore
from tests import factories
from tests.conftest import as_sqlalchemy
from tests.harness.app_key import AppKey
from tests.harness.concurrency import eventually
from tests.harness.engines import dispose_engines
from tests.harness.server_directories import make_server_directory
from tests.harness.sessions import owner_session
from tests.harness.wakeups import RecordedWakeups
from tools.embedded import EmbeddedPostgres
from tools.embedded.ports import free_port
from tools.embedded.postgres import installed_program
from tools.fake_github import FakeGitHub, Handle

pytestmark = [pytest.mark.check, pytest.mark.slow(25)]

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
DATABASE = "change_freeze"
PAGE = (ROOT / "docs" / "operations" / "backup.md").read_text()
BLOCKS = [re.sub(r"^ {3}", "", block, flags=re.MULTILINE) for block in re.findall(r"(?ms)^ *```sh\n(.*?)^ *```", PAGE)]
BACKUP, RESTORE, CHECK, SHOW, CONFIRM = BLOCKS


@dataclass(frozen=True, slots=True)
class Operator:
    """Runs what an operator types, with the environment of the service."""

    environment: dict[str, str] = field(repr=False)
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def run(self, commands: str, cluster: EmbeddedPostgres, user: str = "postgres") -> str:
        """Run lines of commands on a cluster, those of the service in this process, and return what they print."""
        self.use(cluster)
        self.monkeypatch.setenv("PGUSER", user)
        shown = ""
        for line in commands.splitlines():
            if line.startswith("python -m app "):
                status, output = self.app(*line.split()[3:])
            else:
                done = subprocess.run(shlex.split(line), capture_output=True, text=True, timeout=120, check=False)
                status, output = done.returncode, done.stdout + done.stderr
            assert status == 0, output
            shown += output
        return shown

    def app(self, *arguments: str) -> tuple[int, str]:
        """Run a command of the service; return its exit status and what it prints."""
        status = main(arguments)
        printed = self.capsys.readouterr()
        return status, printed.out + printed.err

    def use(self, cluster: EmbeddedPostgres, database: str = DATABASE) -> None:
        """Have the environment name a database."""
        variables = {
            **self.environment,
            "PGHOST": str(cluster.sockets),
            "DATABASE_URL": cluster.url(database, "change_freeze_service"),
            "DATABASE_OWNER_URL": cluster.url(database, "change_freeze_owner"),
        }
        for name, value in variables.items():
            self.monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    directory = make_server_directory("backups")
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def archive(home: Path) -> Path:
    """Return where the write-ahead log is archived."""
    made = home / "archive"
    made.mkdir()
    made.chmod(0o777)
    return made


@pytest.fixture(scope="module")
def primary(home: Path, archive: Path) -> Iterator[EmbeddedPostgres]:
    """Return a cluster with the database of the service, whose write-ahead log is archived."""
    cluster = EmbeddedPostgres(home / "primary", throwaway=True)
    cluster.settings = {**cluster.settings, "archive_mode": "on", "archive_command": f"cp %p {archive}/%f"}
    with cluster:
        with psycopg.connect(cluster.ensure_database(DATABASE), autocommit=True) as superuser:
            superuser.execute((ROOT / "deploy" / "postgres" / "roles.sql").read_bytes())
        migrate(as_sqlalchemy(cluster.url(DATABASE, "change_freeze_owner")))
        yield cluster


@pytest.fixture
def operator(
    tmp_path: Path,
    fake_github_server: Handle,
    app_key: AppKey,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Operator:
    github = FakeGitHub(app_public_key=app_key.public)
    fake_github_server.replace(github)
    environment = {
        "PATH": os.pathsep.join([str(installed_program("psql").parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "REDIS_URL": redis_url,
        "SECRET_KEY": "a secret of tests",
        "GITHUB_API_URL": github.base_url,
        "GITHUB_APP_ID": str(github.app.id),
        "GITHUB_APP_PRIVATE_KEY": app_key.private,
        "SWEEP_EVERY": "1",
        "WEB_CONCURRENCY": "1",
    }
    monkeypatch.chdir(tmp_path)
    return Operator(environment, monkeypatch, capsys)


@contextmanager
def jobs_of(cluster: EmbeddedPostgres, database: str = DATABASE) -> Iterator[UnitOfWorkFactory]:
    """Open the database of a cluster as workers do."""
    engine = make_engine(cluster.url(database, "change_freeze_service"), 2, role=WORKER_ROLE)
    ports = Ports(SecretKey(b"a secret of tests"))
    try:
        yield UnitOfWorkFactory(engine, DatabaseClock(), RecordedWakeups(), ports)
    finally:
        engine.dispose()


def identity_of(cluster: EmbeddedPostgres) -> IdentityState:
    with jobs_of(cluster) as jobs, Session(jobs.engine) as session:
        return read_identity(session)


def add_history(cluster: EmbeddedPostgres, name: str) -> None:
    """Add an organisation with sealed audit entries, and a key that is encrypted with SECRET_KEY."""
    address = as_sqlalchemy(cluster.url(DATABASE))
    with owner_session(address) as session:
        organization = factories.organization(session, name)
        session.commit()
    dispose_engines(address)
    with jobs_of(cluster) as jobs:
        for number in range(3):
            with jobs.open(Caller(organization.id, SYSTEM, "system")) as uow:
                uow.audit("organization.updated", ("organization", organization.id, name), before=number, after=None)
        seal_entries(jobs)
        with jobs.open(SYSTEM_CALLER) as uow:
            current_signer(uow)


@contextmanager
def running(name: str) -> Iterator[Path]:
    """Run a process of the service, and yield its log."""
    log = Path(f"{name}.log")
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "app", name], stdout=output, stderr=output)
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def test_dump_is_restored_into_a_fresh_cluster(primary: EmbeddedPostgres, home: Path, operator: Operator) -> None:
    """The drill of the page, from the backup to the confirmation, and a dump restored into the same database."""
    add_history(primary, "Acme")
    shown = operator.run(BACKUP, primary, "change_freeze_backup")
    assert "fix" not in shown
    with EmbeddedPostgres(home / "fresh", throwaway=True) as fresh:
        operator.run(RESTORE, fresh)
        shown = operator.run(CHECK, fresh)
        assert "The database was already at revision" in shown
        assert "is whole: 3 seals" in shown
        assert "fix" not in shown
        state = identity_of(fresh)
        assert state.recorded.system_identifier != state.present.system_identifier
        port = free_port()
        operator.monkeypatch.setenv("PORT", str(port))
        with running("api"), running("worker") as log:
            eventually(lambda: _answers(port), PATIENCE)
            eventually(lambda: "the database was restored: it runs in another cluster" in log.read_text(), PATIENCE)
        assert "Confirming releases 0 checks." in operator.run(SHOW, fresh)
        assert "Confirmed." in operator.run(CONFIRM, fresh)
        assert identity_of(fresh).confirmed

        operator.run(f"pg_dump --format=custom --file=own.dump {DATABASE}", fresh)
        operator.run(f"pg_restore --clean --if-exists --dbname={DATABASE} own.dump", fresh)
        found = identity_of(fresh)
        assert difference(found.recorded, found.present) == "its tables were made again, as by pg_restore --clean"


def test_backup_check_finds_what_is_missing(primary: EmbeddedPostgres, operator: Operator) -> None:
    add_history(primary, "Globex")
    with psycopg.connect(primary.url("postgres"), autocommit=True) as superuser:
        superuser.execute("CREATE DATABASE older TEMPLATE change_freeze")
    add_history(primary, "Initech")
    operator.run("python -m app backup-check --write seals.json", primary)
    operator.use(primary, "older")
    status, shown = operator.app("backup-check", "--against", "seals.json")
    assert status == 1
    assert "fix  organisations are missing: org_" in shown
    with psycopg.connect(primary.url("older"), autocommit=True) as superuser:
        superuser.execute("DELETE FROM audit_seals WHERE sequence = 2")
        superuser.execute("ALTER TABLE freezes DISABLE ROW LEVEL SECURITY")
    operator.monkeypatch.setenv("SECRET_KEY", "another secret of tests")
    status, shown = operator.app("backup-check")
    assert status == 1
    assert "is not whole: seal 2 is missing" in shown
    assert "fix  no row-level security on freezes: restore the schema" in shown
    assert "fix  SECRET_KEY is not the one that the database was used with" in shown


def _clone(primary: EmbeddedPostgres, home: Path, archive: Path, operator: Operator, name: str) -> EmbeddedPostgres:
    """Return a cluster made of a base backup of the primary, which recovers from the archive when it is started."""
    clone = EmbeddedPostgres(home / name, throwaway=True)
    operator.run(f"pg_basebackup --pgdata={clone.directory} --checkpoint=fast --no-sync", primary)
    clone.settings = {**clone.settings, "restore_command": f"cp {archive}/%f %p", "recovery_target_action": "promote"}
    return clone


def _own(clone: EmbeddedPostgres) -> None:
    for path in (clone.directory, *clone.directory.rglob("*")):
        if clone.account is not None:
            os.chown(path, clone.account.user, clone.account.group)


def _is_writable(cluster: EmbeddedPostgres) -> bool:
    with psycopg.connect(cluster.url(DATABASE), autocommit=True) as connection:
        return connection.execute("SELECT NOT pg_is_in_recovery()").fetchone() == (True,)


def test_recovery_to_a_point_in_time_begins_a_timeline(
    primary: EmbeddedPostgres, home: Path, archive: Path, operator: Operator
) -> None:
    recovered = _clone(primary, home, archive, operator, "recovered")
    (recovered.directory / "recovery.signal").touch()
    recovered.settings = {**recovered.settings, "recovery_target_name": "before the mistake"}
    _own(recovered)
    with psycopg.connect(primary.url(DATABASE), autocommit=True) as superuser:
        superuser.execute("CREATE TABLE kept ()")
        superuser.execute("SELECT pg_create_restore_point('before the mistake')")
        superuser.execute("CREATE TABLE mistake ()")
        superuser.execute("SELECT pg_switch_wal()")
        archived = "SELECT last_archived_wal >= pg_walfile_name(pg_current_wal_lsn() - 1) FROM pg_stat_archiver"
        eventually(lambda: superuser.execute(archived).fetchone() == (True,), PATIENCE)
        superuser.execute("DROP TABLE kept, mistake")
    with recovered:
        eventually(lambda: _is_writable(recovered), PATIENCE)
        with psycopg.connect(recovered.url(DATABASE)) as connection:
            tables = connection.execute("SELECT relname FROM pg_class WHERE relname IN ('kept', 'mistake')").fetchall()
        assert tables == [("kept",)]
        state = identity_of(recovered)
        assert (state.recorded.timeline, state.present.timeline) == (1, 2)
        with jobs_of(recovered) as jobs:
            assert notice_restore(jobs)
        assert "timeline 2, not 1" in (identity_of(recovered).difference or "")


def test_promoted_standby_is_a_failover_only_if_standbys_are_synchronous(
    primary: EmbeddedPostgres, home: Path, archive: Path, operator: Operator
) -> None:
    with jobs_of(primary) as jobs:
        assert not notice_restore(jobs)  # the service runs on the primary
    standby = _clone(primary, home, archive, operator, "standby")
    (standby.directory / "standby.signal").touch()
    _own(standby)
    with standby, jobs_of(standby) as jobs:
        with psycopg.connect(standby.url(DATABASE), autocommit=True) as superuser:
            superuser.execute("SELECT pg_promote()")
        eventually(lambda: _is_writable(standby), PATIENCE)
        state = identity_of(standby)
        assert not state.confirmed
        assert difference(state.recorded, state.present) is not None
        with psycopg.connect(standby.url(DATABASE), autocommit=True) as superuser:
            superuser.execute("UPDATE database_identity SET seen_at = clock_timestamp()")
        assert not notice_restore(jobs, synchronous_standbys=True)
        assert identity_of(standby).confirmed
        with psycopg.connect(standby.url(DATABASE), autocommit=True) as superuser:
            superuser.execute("UPDATE database_identity SET timeline = 1, seen_at = seen_at - interval '2 minutes'")
        assert notice_restore(jobs, synchronous_standbys=True)
