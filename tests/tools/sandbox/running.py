"""Starting `python -m tools.sandbox` as processes, and stopping it."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.harness.concurrency import eventually

ROOT = Path(__file__).parent.parent.parent.parent


def processes_of(directory: Path) -> list[str]:
    """Return the command lines of all processes that name a sandbox's directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
            if str(directory).encode() in command + environment:
                found.append(command.replace(b"\0", b" ").decode())
    return found


@dataclass
class Run:
    """One `python -m tools.sandbox`, with its output in a file."""

    directory: Path
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def output(self) -> str:
        return self.log.read_text()

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.directory / "sandbox.json").read_text())
        return found

    def wait_until_ready(self) -> "Run":
        eventually(lambda: self.process.poll() is not None or "Ctrl-C" in self.output)
        assert self.process.poll() is None, self.output
        return self

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)

    def get(self, path: str, token: str) -> requests.Response:
        headers = {"Authorization": f"Bearer {token}"}
        return requests.get(self.report["baseUrl"] + path, headers=headers, timeout=10)


runs: list[Run] = []
"""Every sandbox that was started, the latest last."""


# What runs in the background of a script ignores SIGINT, and so does whatever it starts; a terminal's make does not.
WITH_SIGINT = [
    sys.executable,
    "-c",
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])",
]


def start(directory: Path, command: list[str] | None = None, **environment: str) -> Run:
    log = directory.parent / f"{directory.name}.output"
    inherited = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command or [sys.executable, "-m", "tools.sandbox"],
            cwd=ROOT,
            env=inherited
            | {"SANDBOX_DIR": str(directory), "PORT": "0", "FAKE_GITHUB_PORT": "0"}
            | {"FAKE_STRIPE_PORT": "0", "FAKE_SLACK_PORT": "0", "MAILBOX_PORT": "0"}
            | environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    runs.append(Run(directory, process, log))
    return runs[-1]


def running_in(directory: Path) -> Run:
    """Return the sandbox that runs in a directory; it is started if there is none, without the demo."""
    last = next((run for run in reversed(runs) if run.directory == directory), None)
    if last is not None and last.process.poll() is None:
        return last
    return start(directory, DEMO="0").wait_until_ready()
