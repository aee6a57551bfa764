"""The embedded servers: they start, stop, and come back after the worst."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest
from redis import Redis

from tests.harness.concurrency import eventually
from tests.harness.processes import is_gone
from tests.harness.server_directories import make_server_directory
from tools.embedded import EmbeddedPostgres, EmbeddedValkey, ServerError, paths
from tools.embedded.processes import tail

pytestmark = [pytest.mark.check, pytest.mark.slow(9)]
ROOT = Path(__file__).parent.parent.parent

STARTER = """
import sys, time, pathlib
from tools.embedded.processes import tail
from tools.embedded import EmbeddedPostgres, EmbeddedValkey
home = pathlib.Path(sys.argv[1])
postgres = EmbeddedPostgres(home / "postgres").start()
valkey = EmbeddedValkey(home / "redis").start()
print(postgres.pid, valkey.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def empty_home() -> Iterator[Path]:
    """Make a directory for servers that start for the first time."""
    directory = make_server_directory("embedded")
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    """Make PostgreSQL's data once: that takes several times as long as what a test does with them."""
    directory = make_server_directory("embedded")
    with EmbeddedPostgres(directory / "postgres") as server:
        pass
    yield server.directory
    shutil.rmtree(directory)


@pytest.fixture
def home(empty_home: Path, cluster: Path) -> Path:
    """Make a directory with PostgreSQL's data."""
    subprocess.run(["cp", "-a", cluster, empty_home / "postgres"], check=True)
    return empty_home


@pytest.fixture
def closed_home() -> Iterator[Path]:
    """Make a directory that only its owner enters, like /root."""
    directory = Path(tempfile.mkdtemp(prefix="change-freeze-closed-", dir="/tmp"))
    yield directory
    elsewhere = paths.ELSEWHERE / f"change-freeze-{paths.digest(directory)}"
    shutil.rmtree(elsewhere, ignore_errors=True)
    shutil.rmtree(directory)


def test_postgres_keeps_its_data_over_a_restart(home: Path) -> None:
    with EmbeddedPostgres(home / "postgres") as server, psycopg.connect(server.ensure_database("app")) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    with EmbeddedPostgres(home / "postgres") as server, psycopg.connect(server.ensure_database("app")) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_redis_keeps_its_data_over_a_restart_and_evicts_nothing(empty_home: Path) -> None:
    with EmbeddedValkey(empty_home / "redis") as server, Redis.from_url(server.url) as client:
        client.set("kept", "42")
        assert client.info("memory")["maxmemory_policy"] == "noeviction"
    with EmbeddedValkey(empty_home / "redis") as server, Redis.from_url(server.url) as client:
        assert client.get("kept") == b"42"


def test_servers_do_not_listen_on_a_port(home: Path) -> None:
    with EmbeddedPostgres(home / "postgres") as postgres, psycopg.connect(postgres.url("postgres")) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
    with EmbeddedValkey(home / "redis") as valkey, Redis.from_url(valkey.url) as client:
        assert client.info("server")["tcp_port"] == 0


def test_stopped_server_leaves_no_process_or_socket(home: Path) -> None:
    with EmbeddedPostgres(home / "postgres") as server:
        process, sockets = server.pid, server.sockets
        assert not is_gone(process)
    assert is_gone(process)
    assert not sockets.exists()


def test_servers_restart_after_kill_9(home: Path) -> None:
    postgres, valkey = EmbeddedPostgres(home / "postgres").start(), EmbeddedValkey(home / "redis").start()
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    for killed in (postgres, valkey):
        os.kill(killed.pid, signal.SIGKILL)
        killed.stop()
    with EmbeddedPostgres(home / "postgres") as again, psycopg.connect(again.url("postgres")) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
    with EmbeddedValkey(home / "redis") as again_valkey, Redis.from_url(again_valkey.url) as client:
        assert client.ping()


def test_stale_pid_file_of_a_foreign_process_is_ignored(home: Path) -> None:
    with EmbeddedPostgres(home / "postgres"):
        pass
    (home / "postgres" / "postmaster.pid").write_text(f"{os.getpid()}\n{home / 'postgres'}\n")
    with EmbeddedPostgres(home / "postgres") as server:
        assert server.is_ready()


def test_servers_end_with_their_parent_and_restart_at_once(home: Path) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, home], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=-1
    )
    assert starter.stdout is not None
    servers = [int(number) for number in starter.stdout.readline().split()]
    starter.kill()
    starter.communicate()
    with EmbeddedPostgres(home / "postgres") as postgres, EmbeddedValkey(home / "redis") as valkey:
        assert postgres.is_ready()
        assert valkey.is_ready()
    for server in servers:
        eventually(partial(is_gone, server))


def test_interrupted_first_start_is_repaired(empty_home: Path) -> None:
    draft = empty_home / "postgres.new"
    draft.mkdir()
    (draft / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres(empty_home / "postgres") as server:
        assert server.is_ready()
    assert not draft.exists()


def test_second_server_on_the_same_data_is_rejected(home: Path) -> None:
    with EmbeddedPostgres(home / "postgres"), pytest.raises(ServerError, match="another PostgreSQL is running"):
        EmbeddedPostgres(home / "postgres").start(timeout=0)


def test_failed_start_reports_the_end_of_the_log(home: Path) -> None:
    with EmbeddedPostgres(home / "postgres"):
        pass
    (home / "postgres" / "postgresql.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(ServerError, match="no_such_setting"):
        EmbeddedPostgres(home / "postgres").start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands its servers to another account")
class TestAsRoot:
    def test_servers_started_as_root_run_unprivileged(self, empty_home: Path) -> None:
        with EmbeddedPostgres(empty_home / "postgres") as postgres, EmbeddedValkey(empty_home / "redis") as valkey:
            assert Path(f"/proc/{postgres.pid}").stat().st_uid != 0
            assert Path(f"/proc/{valkey.pid}").stat().st_uid != 0

    def test_data_in_an_inaccessible_directory_has_a_stable_location(self, closed_home: Path) -> None:
        with EmbeddedPostgres(closed_home / "postgres") as first:
            assert first.moved
            assert first.directory.is_relative_to(paths.ELSEWHERE)
        assert EmbeddedPostgres(closed_home / "postgres").directory == first.directory
        assert closed_home.stat().st_mode & 0o777 == 0o700

    def test_binary_in_an_inaccessible_directory_is_copied_once(self, closed_home: Path) -> None:
        (closed_home / "bin").mkdir()
        binary = Path(shutil.copy("/bin/true", closed_home / "bin" / "true"))
        account = paths.server_account()
        copies = [paths.runnable(binary, closed_home, ["bin"], f"test-{os.getpid()}", account) for _ in range(2)]
        try:
            assert copies[0] == copies[1]
            assert paths.can_enter(account, copies[0])
        finally:
            shutil.rmtree(copies[0].parent.parent)

    def test_directory_of_another_owner_is_rejected(self, empty_home: Path) -> None:
        (empty_home / "trap").mkdir()
        os.chown(empty_home / "trap", 12345, 12345)
        with pytest.raises(RuntimeError, match="another user"):
            paths.own_directory(empty_home / "trap", paths.ourselves(), 0o700)

    def test_symbolic_link_in_place_of_a_directory_is_rejected(self, empty_home: Path) -> None:
        (empty_home / "link").symlink_to("/etc")
        with pytest.raises(RuntimeError, match="another user"):
            paths.own_directory(empty_home / "link", paths.ourselves(), 0o700)


def test_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(str(number) for number in range(100)))
    assert tail(log, 2) == "    98\n    99"
