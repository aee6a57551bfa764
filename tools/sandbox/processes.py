"""The processes of the sandbox: started one by one, watched together, stopped in the opposite order.

Three nets under each other make sure that none outlives the sandbox: an orderly stop; each child's kill signal at our
own death, which holds even against kill -9; and the kernel handing us the orphans of our children, so that what a
killed child had started is found as well.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.embedded.processes import Program, adopt_orphans, descendants, start_child, stop_child, tail
from tools.embedded.server import EmbeddedServer
from tools.sandbox.settings import ROOT, SandboxError

READY_TIMEOUT = 120.0
STOP_TIMEOUT = 10.0
MAX_RESTARTS = 5
RESTART_WINDOW = 60.0
"""Seconds in which a process that has ended more often than that is given up."""


@dataclass(frozen=True, slots=True)
class Running:
    """One program of the sandbox."""

    name: str
    child: subprocess.Popen[bytes]
    log: Path
    arguments: list[str]
    environment: Mapping[str, str]


class Processes:
    """Everything that the sandbox has started."""

    def __init__(self, logs: Path, lock: int) -> None:
        self.logs = logs
        self.lock = lock  # inherited, so that a next sandbox knows when the last of us is gone
        self.servers: list[EmbeddedServer] = []
        self.running: list[Running] = []
        self._ends: dict[str, list[float]] = {}
        adopt_orphans()

    def start_server(self, server: EmbeddedServer) -> None:
        """Start an embedded server; it answers when this returns."""
        self.servers.append(server)
        server.start()

    def start(self, name: str, arguments: list[str], environment: Mapping[str, str]) -> int:
        """Start a program in the repository's root, its output in a log of its own, and return its process id."""
        log = self.logs / f"{name}.log"
        with log.open("ab") as output:
            child = start_child(Program(arguments, environment, directory=ROOT), output, (self.lock,))
        self.running.append(Running(name, child, log, arguments, environment))
        return child.pid

    def wait_until(self, ready: Callable[[], bool], what: str, timeout: float = READY_TIMEOUT) -> None:
        """Wait until `ready`. Raise SandboxError if a process ends meanwhile, or after `timeout` seconds."""
        give_up = time.monotonic() + timeout
        while not ready():
            self.check()
            if time.monotonic() > give_up:
                raise SandboxError(f"{what} took longer than {timeout:.0f} s. The logs are in {self.logs}.")
            time.sleep(0.05)

    def check(self) -> None:
        """Raise SandboxError when a process has ended."""
        message = self.describe_failure()
        if message is not None:
            raise SandboxError(message)

    def describe_failure(self) -> str | None:
        """Return a message about a process that has ended, with the last lines of its log; None while all run."""
        watched = [(one.name, one.child, one.log) for one in self.running]
        watched += [(server.name, server.child, server.log) for server in self.servers if server.child is not None]
        for name, child, log in watched:
            status = child.poll()
            if status is not None:
                return f"{name} has ended ({describe_status(status)}). The end of {log}:\n{tail(log)}"
        return None

    def restart_ended(self) -> dict[str, int]:
        """Start again what has ended, and return the new process ids by name.

        Raise SandboxError when the same one ends again and again.
        """
        restarted = {}
        for server in self.servers:
            if server.child is not None and server.child.poll() is not None:
                self._count_end(server.name)
                server.stop()
                restarted[server.name] = server.start().pid
        for one in [one for one in self.running if one.child.poll() is not None]:
            self._count_end(one.name)
            stop_child(one.child, signal.SIGKILL, 0)  # what it had started itself
            self.running.remove(one)
            restarted[one.name] = self.start(one.name, one.arguments, one.environment)
        return restarted

    def _count_end(self, name: str) -> None:
        now = time.monotonic()
        recent = [moment for moment in self._ends.get(name, []) if now - moment < RESTART_WINDOW]
        self._ends[name] = [*recent, now]
        if len(recent) >= MAX_RESTARTS:
            raise SandboxError(self.describe_failure() or f"{name} does not keep running.")

    def stop(self) -> None:
        """Stop everything, the last started first, and servers after their clients."""
        for one in reversed(self.running):
            if one.child.poll() is None:
                one.child.send_signal(signal.SIGTERM)  # all at once: each drains while the others do
        for one in reversed(self.running):
            stop_child(one.child, signal.SIGTERM, STOP_TIMEOUT)
        for server in reversed(self.servers):
            server.stop()
        for orphan in descendants():
            with suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)


def describe_status(status: int) -> str:
    """Return how a process ended."""
    return f"exit status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"
