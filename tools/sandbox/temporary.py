"""A sandbox for the length of one run, with data of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.embedded.processes import Program, start_child, stop_child
from tools.sandbox.settings import ROOT, SandboxError

START_TIMEOUT = 180.0
SWEEP_EVERY = "30"
"""Seconds between two sweeps: Redis wakes the worker, and sweeps every 2 s would be half of what it does."""


@contextmanager
def temporary_sandbox() -> Iterator[dict[str, Any]]:
    """Start a sandbox in a directory of its own, yield its report, and leave nothing behind."""
    home = Path(tempfile.mkdtemp(prefix="change-freeze-sandbox-", dir="/tmp"))  # short, for sockets
    home.chmod(0o711)  # the servers' account has to reach its own directories
    environment = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
    environment |= {
        "SANDBOX_DIR": str(home / "sandbox"),
        "PORT": "0",
        "FAKE_GITHUB_PORT": "0",
        "FAKE_STRIPE_PORT": "0",
        "FAKE_SLACK_PORT": "0",
        "MAILBOX_PORT": "0",
        "DEMO": "0",
        "SWEEP_EVERY": SWEEP_EVERY,
    }
    with (home / "output").open("wb") as output:
        command = [sys.executable, "-m", "tools.sandbox"]
        process = start_child(Program(command, environment, ROOT, stop_signal=signal.SIGINT), output)
    try:
        yield _wait_for_report(home, process)
    finally:
        stop_child(process, signal.SIGINT, START_TIMEOUT)
        shutil.rmtree(home, ignore_errors=True)


def _wait_for_report(home: Path, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Wait until the sandbox is ready, and return its report. Raise SandboxError if it does not start."""
    give_up = time.monotonic() + START_TIMEOUT
    file = home / "sandbox" / "sandbox.json"
    while not file.exists():
        if process.poll() is not None or time.monotonic() > give_up:
            raise SandboxError(f"The sandbox does not start:\n{(home / 'output').read_text()}")
        time.sleep(0.1)
    report: dict[str, Any] = json.loads(file.read_text())
    return report
