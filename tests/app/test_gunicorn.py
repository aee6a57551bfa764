"""The API as a process: when it listens, what it leaves behind, and how it reloads."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.commands.api import SETTINGS
from tests.app.test_config import private_key
from tests.harness.concurrency import eventually, meanwhile, results_of
from tools.embedded.ports import free_port

pytestmark = [pytest.mark.check, pytest.mark.slow(50)]

ROOT = Path(__file__).parents[2]
PATIENCE = 180.0
AS_SYSTEMD = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""
"""Runs Python with a listener as its file 3, as systemd does for a socket unit (sd_listen_fds(3))."""


class Api:
    """A running API of one worker process, without a database."""

    def __init__(
        self,
        temporary: Path,
        key: str | None = None,
        application: str | None = None,
        level: str = "INFO",
        listener: socket.socket | None = None,
    ) -> None:
        self.port = free_port()
        self.key = temporary / "app.pem"
        self.key.write_text(key or private_key())
        self.log = temporary / "log"
        environment = {
            "PATH": os.environ["PATH"],
            "TMPDIR": str(temporary),
            "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing",
            "REDIS_URL": "redis://127.0.0.1:1",
            "SECRET_KEY": "a secret of tests",
            "GITHUB_APP_ID": "1",
            "GITHUB_APP_PRIVATE_KEY_FILE": str(self.key),
            "PORT": str(self.port),
            "LOG_LEVEL": level,
            "WEB_CONCURRENCY": "1",
        }
        arguments = ["app", "api"] if application is None else ["gunicorn", "--config", str(SETTINGS), application]
        launcher = [] if listener is None else ["-c", AS_SYSTEMD, str(listener.fileno())]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *launcher, "-m", *arguments],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
                pass_fds=[] if listener is None else [listener.fileno()],
            )

    def wait_until_listening(self) -> None:
        eventually(self._listens, PATIENCE)

    def health(self, timeout: float = PATIENCE) -> int:
        return httpx.get(f"http://127.0.0.1:{self.port}/healthz", timeout=timeout).status_code

    def lines(self) -> list[dict[str, Any]]:
        """Return what the processes have written, of which every line must be JSON."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def request_until(self, ended: threading.Event, pause: float) -> list[str]:
        """Send requests on connections that are kept alive, and return the errors."""
        errors = []
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        while not ended.wait(pause):
            try:
                connection.request("GET", "/healthz")
                assert connection.getresponse().read()
            except (OSError, http.client.HTTPException) as error:
                errors.append(repr(error))
                connection.close()
        connection.close()
        return errors

    def _listens(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@contextmanager
def running(
    temporary: Path, application: str | None = None, level: str = "INFO", listener: socket.socket | None = None
) -> Iterator[Api]:
    api = Api(temporary, application=application, level=level, listener=listener)
    try:
        yield api
    finally:
        api.process.terminate()
        api.process.wait(PATIENCE)


def children_of(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def directories(temporary: Path) -> list[str]:
    return [entry.name for entry in temporary.iterdir() if entry.is_dir()]


def test_api_obeys_the_level_of_logs_and_removes_its_directory_at_the_end(tmp_path: Path) -> None:
    with running(tmp_path, level="WARNING") as api:
        api.wait_until_listening()
        assert api.health() == 200
        assert len(directories(tmp_path)) == 1
    assert directories(tmp_path) == []
    assert {line["level"] for line in api.lines()} == {"warning"}


def test_api_removes_the_directory_of_one_that_was_killed(tmp_path: Path) -> None:
    with running(tmp_path) as killed:
        killed.wait_until_listening()
        killed.process.kill()
        killed.process.wait(PATIENCE)
    [left] = directories(tmp_path)
    with running(tmp_path) as api:
        api.wait_until_listening()
        eventually(lambda: left not in directories(tmp_path), PATIENCE)
    assert directories(tmp_path) in ([], [left])


def test_reload_keeps_serving_when_the_configuration_has_become_invalid(tmp_path: Path) -> None:
    with running(tmp_path) as api:
        api.wait_until_listening()
        for content in (private_key(), "no key"):
            api.key.write_text(content)
            api.process.send_signal(signal.SIGHUP)
            eventually(lambda: api.log.read_text().count("Booting worker") > 1, PATIENCE)
            assert api.health() == 200
        eventually(lambda: "GITHUB_APP_PRIVATE_KEY_FILE must be" in api.log.read_text(), PATIENCE)
        assert api.health() == 200
        assert len(directories(tmp_path)) == 1
        assert api.process.poll() is None


def test_reload_loses_no_request_on_kept_alive_connections(tmp_path: Path) -> None:
    with running(tmp_path) as api:
        api.wait_until_listening()
        assert api.health() == 200
        pauses = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
        with meanwhile(*[partial(api.request_until, pause=pause) for pause in pauses]) as clients:
            for reloads in (1, 2, 3):
                api.process.send_signal(signal.SIGHUP)
                eventually(lambda: api.log.read_text().count("Finished server process") >= reloads, PATIENCE)  # noqa: B023
        assert results_of(clients) == [[]] * len(pauses)


def request_on(listener: socket.socket) -> socket.socket:
    """Send a request to what accepts from a listener, and return its connection."""
    connection = socket.create_connection(listener.getsockname(), PATIENCE)
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    return connection


def statuses(connections: Sequence[socket.socket]) -> list[bytes]:
    """Return the status lines that were answered; empty for a connection that was reset."""
    found = []
    for connection in connections:
        with connection, suppress(ConnectionResetError):
            found.append(connection.makefile("rb").readline().strip())
            continue
        found.append(b"")
    return found


def test_requests_in_the_queue_of_an_inherited_socket_survive_restarts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        waiting = []
        with running(tmp_path, listener=listener) as api:
            assert statuses([request_on(listener)]) == [b"HTTP/1.1 200 OK"]
            assert f"Listening at: http://127.0.0.1:{listener.getsockname()[1]}" in api.log.read_text()
            workers = children_of(api.process.pid)
            for worker in workers:
                os.kill(worker, signal.SIGSTOP)
            waiting += [request_on(listener) for _ in range(5)]
            api.process.terminate()
            for worker in workers:
                os.kill(worker, signal.SIGCONT)
            assert api.process.wait(PATIENCE) == 0
        waiting += [request_on(listener) for _ in range(5)]
        with running(tmp_path, listener=listener):
            assert statuses(waiting) == [b"HTTP/1.1 200 OK"] * 10


def test_worker_process_that_cannot_begin_does_not_end_the_api_with_3(tmp_path: Path) -> None:
    api = Api(tmp_path, application="tests.app.failing_api:without_lifespan")
    status = api.process.wait(PATIENCE)
    assert "Worker failed to boot" in api.log.read_text()
    assert status not in {0, 3}


def test_api_with_an_invalid_environment_ends_with_3_before_it_listens(tmp_path: Path) -> None:
    api = Api(tmp_path, key="no key")
    assert api.process.wait(PATIENCE) == 3
    [failure] = api.lines()
    assert (failure["level"], failure["event"]) == ("critical", "The API cannot start.")
    assert failure["problems"][0].startswith("GITHUB_APP_PRIVATE_KEY_FILE must be")
    assert directories(tmp_path) == []


def test_every_line_is_json_through_start_reload_failure_and_end(tmp_path: Path) -> None:
    with running(tmp_path, "tests.app.failing_api:product") as api:
        api.wait_until_listening()
        assert api.health() == 200
        traceparent = f"00-{'ab' * 16}-{'cd' * 8}-01"
        headers = {"X-Request-Id": "the-clients-own-id", "traceparent": traceparent}
        failed = httpx.get(f"http://127.0.0.1:{api.port}/readyz", headers=headers, timeout=PATIENCE)
        assert (failed.status_code, failed.headers["X-Request-Id"]) == (500, "the-clients-own-id")
        api.process.send_signal(signal.SIGHUP)
        eventually(lambda: "Finished server process" in api.log.read_text(), PATIENCE)
        assert api.health() == 200
    lines = api.lines()
    assert {line["level"] for line in lines} == {"info", "warning", "error"}
    written = [line["event"] for line in lines]
    for gunicorns in (
        "Listening at: ",
        "Booting worker",
        "Hang up: Master",
        "Handling signal: term",
        "Shutting down: Master",
    ):
        assert any(event.startswith(gunicorns) for event in written), written
    assert {line["logger"] for line in lines if line["event"] != "request"} >= {"gunicorn.error", "uvicorn.error"}
    assert "uvicorn.access" not in {line.get("logger") for line in lines}
    [error] = [line for line in lines if line["level"] == "error"]
    [access] = [line for line in lines if line.get("status") == 500]
    assert error["event"] == "request failed"
    assert "RuntimeError: a failure" in error["exception"]
    assert error["trace_id"] == access["trace_id"] == "ab" * 16
    assert error["request_id"] == access["request_id"] == "the-clients-own-id"
    assert any("UserWarning: a warning\nof two lines" in event for event in written)
