"""The entry point `python -m app <command>`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.__main__ import COMMANDS, main

ROOT = Path(__file__).parents[2]
NAMES = [command.name for command in COMMANDS]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the entry point as a process of its own, without the configuration of the service."""
    known = {"PATH": os.environ["PATH"], **environment}
    command = [sys.executable, "-m", "app", *arguments]
    return subprocess.run(command, cwd=ROOT, env=known, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_every_command(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([option]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {command.name:<9}{command.summary}\n" in shown for command in COMMANDS)


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


@pytest.mark.parametrize(
    "arguments", [["worker"], ["sweeper"], ["migrate"], ["audit", "verify"], ["plan", "a", "team"]]
)
def test_command_ends_with_3_when_database_url_is_missing(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert main(arguments) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "DATABASE_URL is required" in captured.err


def test_migrate_upgrades_the_database_and_can_run_again(unmigrated_database: str) -> None:
    for _ in range(2):
        ended = run("migrate", DATABASE_URL=unmigrated_database)
        assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr


def test_migrate_ends_with_3_when_the_database_does_not_answer() -> None:
    ended = run("migrate", DATABASE_URL="postgresql://nobody@127.0.0.1:1/nothing")
    assert ended.returncode == 3
    assert "The database does not answer" in ended.stderr
