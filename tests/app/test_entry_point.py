"""The entry point `python -m app <command>`."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from sqlalchemy import make_url, text

import app.main
from app.__main__ import COMMANDS, main
from app.commands.migrate import SECONDS_BETWEEN_ATTEMPTS, migrate, migrate_patiently
from app.database_connections import RELEASE_REVISION
from rules.version import VERSION
from tests.app.test_config import private_key
from tests.harness.concurrency import PATIENCE, eventually
from tests.harness.engines import owner_engine_of
from tools.embedded.ports import free_ports

ROOT = Path(__file__).parents[2]
NAMES = [command.name for command in COMMANDS]
HOLD = text("LOCK TABLE alembic_version IN SHARE UPDATE EXCLUSIVE MODE")
"""Others may read the table, and every migration waits: it notes who may use the schema."""


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_every_command(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([option]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {command.name:<16}{command.summary}\n" in shown for command in COMMANDS)


def test_version_is_that_of_the_release(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"{VERSION}\n"


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["--verbose"], ["app.worker"]], ids=str)
def test_unknown_command_ends_with_2_and_the_list(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert all(f"  {name} " in captured.err for name in NAMES)
    assert captured.err.endswith(f"unknown command: {arguments[0]}\n" if arguments else "a command is required\n")


@pytest.mark.parametrize("name", NAMES)
def test_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"usage: python -m app {name}" in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_command_rejects_unknown_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--no-such-option"])
    assert ended.value.code == 2
    assert f"python -m app {name}" in capsys.readouterr().err


INVALID = {
    "client": (
        "--block --by a --reason b",
        "--unblock",
        "https://a --block --by a",
        "https://a --block --reason b",
        "https://a --unblock --by a",
        "https://a --unblock --block --by a --reason b",
        "https://a --by a",
        "https://a --reason b",
        "' '",
        "'a\nb'",
        "x" * 501,
    ),
    "pauses": ("4711", "--end", "4711 --end", "--by grace@example.com"),
    "plan": (
        "acme platinum",
        "acme team --by ''",
        "acme team --end",
        "--end",
        "acme --until 2999-01-31",
        "acme team --until soon",
        "acme team --until 2999-01-31T12:00:00",
    ),
    "support": (
        "acme --by a",
        "acme --reason b",
        "acme --by a --reason b --end",
        "acme --by a --reason b --minutes 0",
        "acme --by a --reason b --minutes 481",
        "acme --by ' ' --reason b",
        "acme --by 'a\nb' --reason b",
        "--by a --reason b",
    ),
}
"""By command: arguments that it does not take."""


@pytest.mark.parametrize("name", INVALID)
def test_command_with_invalid_arguments_ends_with_2(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in INVALID[name]:
        with pytest.raises(SystemExit) as ended:
            main([name, *shlex.split(arguments)])
        assert ended.value.code == 2, arguments
        assert f"usage: python -m app {name}" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["worker"], ["migrate"], ["audit", "verify"], ["plan", "a", "team"], ["client"]])
def test_command_ends_with_3_when_database_url_is_missing(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert main(arguments) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "DATABASE_URL is required" in captured.err
    assert ("cannot start" in captured.err) == (arguments == ["worker"])


def test_command_names_the_unusable_private_key_and_ends_with_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configuration = {"DATABASE_URL": "postgresql://127.0.0.1:1/x", "REDIS_URL": "redis://127.0.0.1:1"}
    configuration |= {"SECRET_KEY": "a secret of tests", "GITHUB_APP_ID": "1", "GITHUB_APP_PRIVATE_KEY": "no key"}
    for name, value in configuration.items():
        monkeypatch.setenv(name, value)
    problem = "GITHUB_APP_PRIVATE_KEY must be an RSA private key in PEM format, without a password"
    for arguments in (["audit", "verify"], ["plan", "a", "team"]):
        assert main(arguments) == 3
        assert capsys.readouterr().err.splitlines()[1:] == [problem]
    assert main(["worker"]) == 3
    [line] = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["level"], line["event"]) == ("critical", "The worker cannot start.")
    assert line["problems"] == [problem]
    with pytest.raises(SystemExit) as ended:
        _ = app.main.app
    assert ended.value.code == 3
    assert "GITHUB_APP_PRIVATE_KEY must be" in capsys.readouterr().err


def test_api_names_every_invalid_variable_of_its_server_and_ends_with_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"BIND": "here", "PORT": "99999", "WEB_CONCURRENCY": "0"}.items():
        monkeypatch.setenv(name, value)
    assert main(["api"]) == 3
    [line] = map(json.loads, capsys.readouterr().err.splitlines())
    assert line["event"] == "The API cannot start."
    assert line["problems"] == [
        "BIND must be host:port or unix:path",
        "PORT must be a whole number from 1 to 65535",
        "WEB_CONCURRENCY must be a whole number from 1 to 1000",
    ]


def event_of(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the text of the one line that was written."""
    captured = capsys.readouterr()
    [line] = map(json.loads, captured.err.splitlines())
    assert captured.out == ""
    return str(line["event"])


class TestMigrate:
    def migrate(self, monkeypatch: pytest.MonkeyPatch, **urls: str) -> int:
        monkeypatch.delenv("DATABASE_URL", raising=False)
        for name, url in urls.items():
            monkeypatch.setenv(name, url)
        return main(["migrate"])

    def test_migrate_upgrades_the_database_and_can_run_again(
        self, unmigrated_database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.migrate(monkeypatch, DATABASE_URL=unmigrated_database) == 0
        done = f"The database was at revision none and is now at revision {RELEASE_REVISION}."
        assert event_of(capsys) == done
        assert self.migrate(monkeypatch, DATABASE_URL=unmigrated_database) == 0
        assert event_of(capsys) == f"The database was already at revision {RELEASE_REVISION}."

    def test_migrate_prefers_the_address_of_the_owner(
        self, unmigrated_database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        other = "postgresql://nobody@127.0.0.1:1/nothing"
        assert self.migrate(monkeypatch, DATABASE_URL=other, DATABASE_OWNER_URL=unmigrated_database) == 0
        assert event_of(capsys).startswith("The database was at revision none")

    @pytest.mark.parametrize(
        ("url", "problem"),
        [
            ("postgresql://nobody@127.0.0.1:1/nothing", "The database does not answer: connection failed"),
            ("nonsense", "DATABASE_URL must be a URL of postgresql"),
            ("postgresql://host:port/db", "DATABASE_URL must be a URL of postgresql"),
        ],
    )
    def test_migrate_fails_in_one_line(
        self, url: str, problem: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.migrate(monkeypatch, DATABASE_URL=url) == 3
        event = event_of(capsys)
        assert event.startswith("Nothing was migrated")
        assert problem in event

    def test_migrate_tries_again_while_others_hold_a_table(
        self, own_database: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        holder = owner_engine_of(own_database).connect()
        holder.execute(HOLD)
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 2:
                holder.close()

        assert migrate_patiently(own_database, "20ms", pause) == (RELEASE_REVISION, RELEASE_REVISION)
        assert pauses == [SECONDS_BETWEEN_ATTEMPTS] * 2
        assert (
            capsys.readouterr().err.count("A transaction holds a table (canceling statement due to lock timeout") == 2
        )

    def test_migrate_gives_up_in_one_line_if_a_table_stays_locked(
        self, own_database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("app.commands.migrate.MAX_ATTEMPTS", 1)
        monkeypatch.setattr("app.commands.migrate.migrate_patiently", partial(migrate_patiently, lock_timeout="20ms"))
        with owner_engine_of(own_database).connect() as holder:
            holder.execute(HOLD)
            assert self.migrate(monkeypatch, DATABASE_URL=own_database) == 3
        assert event_of(capsys).startswith(
            "Nothing was migrated. A transaction did not end that holds a table: canceling statement"
        )

    def test_migrate_names_misspelt_variables(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert self.migrate(monkeypatch, DATABASE_OWNER_URI="postgresql://127.0.0.1:1/x", DATABASE_URL="x") == 3
        meant = "DATABASE_OWNER_URI is not a variable of this service: did you mean DATABASE_OWNER_URL?"
        assert caplog.messages == [meant]

    def test_migrate_refuses_a_schema_of_a_newer_release_in_one_line(
        self, own_database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with owner_engine_of(own_database).begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        assert self.migrate(monkeypatch, DATABASE_URL=own_database) == 3
        assert event_of(capsys) == (
            "Nothing was migrated. The database is at revision 9999, which this release does not know "
            f"(its newest is {RELEASE_REVISION}): run the newer release that migrated it."
        )

    def test_migrate_names_the_release_to_pass_through_first(
        self, own_database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with owner_engine_of(own_database).begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '0042'"))
        assert self.migrate(monkeypatch, DATABASE_URL=own_database) == 3
        assert event_of(capsys) == (
            "Nothing was migrated. The database is at revision 0042, older than release 1.0.0: "
            "upgrade to release 1.0.0 first, then to this one."
        )

    def test_migrate_by_another_login_than_the_owner_fails_in_one_line(
        self, unmigrated_database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with owner_engine_of(unmigrated_database).begin() as connection:
            connection.execute(text("CREATE ROLE change_freeze_test_migrator LOGIN PASSWORD 'secret'"))
        try:
            url = make_url(unmigrated_database).set(username="change_freeze_test_migrator", password="secret")
            assert self.migrate(monkeypatch, DATABASE_URL=url.render_as_string(hide_password=False)) == 3
            refused = "Nothing was migrated. The database refused it (as the owner of the schema?): "
            assert event_of(capsys).startswith(refused)
        finally:
            with owner_engine_of(unmigrated_database).begin() as connection:
                connection.execute(text("DROP ROLE change_freeze_test_migrator"))


def probe(address: str, path: str) -> int:
    return httpx.get(f"http://{address}/{path}", timeout=PATIENCE).status_code


def environment_of(database_url: str, redis_url: str) -> dict[str, str]:
    """Return the environment of a process."""
    return {
        "PATH": os.environ["PATH"],
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "SECRET_KEY": "a secret of tests",
        "GITHUB_APP_ID": "1",
        "GITHUB_APP_PRIVATE_KEY": private_key(),
    }


@contextmanager
def waiting(name: str, database_url: str, redis_url: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Run a process until it has written that it waits for the schema; ask it to end after the block."""
    environment = {**environment_of(database_url, redis_url), **variables}
    command = [sys.executable, "-m", "app", name]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert f"{name} starts, release {VERSION}" in process.stderr.readline()
            assert "waiting for the database: The database has no schema: run `python -m app migrate`." in (
                process.stderr.readline()
            )
            yield process
        finally:
            process.terminate()
        rest = process.stderr.read()
        assert "Traceback" not in rest
        lines = [json.loads(line) for line in rest.splitlines()]
        assert all(line["level"] != "error" for line in lines)
        has_debug = variables.get("LOG_LEVEL") == "DEBUG"
        assert any(line["logger"] == "rq.worker" for line in lines) == has_debug


@pytest.mark.check
@pytest.mark.slow(5)
@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_worker_waits_for_the_schema_with_one_line(level: str, unmigrated_database: str, redis_url: str) -> None:
    [port] = free_ports(1)
    metrics = f"127.0.0.1:{port}"
    with waiting("worker", unmigrated_database, redis_url, METRICS_BIND=metrics, LOG_LEVEL=level) as process:
        assert (probe(metrics, "healthz"), probe(metrics, "readyz")) == (200, 503)
        migrate(unmigrated_database)
        eventually(lambda: _runs(unmigrated_database), 30)
        eventually(lambda: probe(metrics, "readyz") == 200, 30)
        assert probe(metrics, "healthz") == 200
    assert process.returncode == 0


@pytest.mark.check
@pytest.mark.slow(5)
def test_worker_that_waits_for_the_schema_handles_a_signal(unmigrated_database: str, redis_url: str) -> None:
    """The first process of a container gets no other signals."""
    with waiting("worker", unmigrated_database, redis_url) as process:
        pass
    assert process.returncode == 0


def _runs(database_url: str) -> bool:
    with owner_engine_of(database_url).connect() as connection:
        return bool(connection.scalar(text("SELECT count(*) FROM lease_holders WHERE kind = 'worker'")))
