"""Starts programs of the service as forks of a process that has imported their code.

Importing the API takes three seconds of a core, and a worker two: a quick run, which starts fifty of them, would spend
half its time on that. The contract is read once as well. A fork is a process like any other: it leads a session, and
dies with the fork server.

`python -m tests.faults.suite.fork_server <descriptor>` is the fork server: it answers at that socket while it is open.
"""

import gc
import importlib.util
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from app import gc_tuning
from schemas.contract import load_contract
from tests.harness.contracts import Specification, read_contracts_once
from tools.embedded.processes import Child, Program, follow_parent, start_child, stop_child
from tools.sandbox.settings import ROOT

PACKAGES = ("handlers", "integrations", "jobs", "mcp_server", "models", "schemas", "services", "slack_app", "web")
LIBRARIES = ("app.commands.api", "app.edge.connexion_adapter", "gunicorn.app.wsgiapp", "rq", "uvicorn_worker")
LEFT_OUT = "prometheus_client"
"""It reads in its import where numbers go, so each program imports it, and what needs it, itself."""
NEEDING_IT = {"handlers.service"}
"""Modules of the packages that import it; the others of `app` do as well."""
LONGEST_MESSAGE = 2**17
POLL = 0.01


class ForkServer:
    """The fork server, as those who start programs see it."""

    def __init__(self, log: Path) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        command = [sys.executable, "-m", "tests.faults.suite.fork_server", str(theirs.fileno())]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        program = Program(command, environment, ROOT, stop_signal=signal.SIGKILL)
        with theirs, log.open("ab") as output:
            self._server = start_child(program, output, (theirs.fileno(),))

    def start(self, program: Program, log: Path) -> Child:
        """Start a program, `python -m <module> …`, which writes to a log."""
        with log.open("ab") as output:
            return _Fork(self, self._ask(described(program), output.fileno()))

    def exit_code(self, process: int) -> int | None:
        """Return how a process has ended: its status, or the negative signal; None while it runs."""
        code: int | None = self._ask({"ended": process})
        return code

    def stop(self) -> None:
        """End it, and with it all that it has started."""
        self._socket.close()
        stop_child(self._server, signal.SIGKILL, 5)

    def _ask(self, request: dict[str, Any], *descriptors: int) -> Any:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
            answer = self._socket.recv(LONGEST_MESSAGE)
        assert answer, "the fork server has ended"
        return json.loads(answer)


class _Fork:
    """A process that the fork server has started."""

    def __init__(self, server: ForkServer, process: int) -> None:
        self._server, self.pid = server, process
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""
        if self._code is None:
            self._code = self._server.exit_code(self.pid)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its exit code; raise TimeoutExpired if it still runs after so many seconds."""
        give_up = time.monotonic() + timeout if timeout is not None else None
        while (code := self.poll()) is None:
            if give_up is not None and time.monotonic() > give_up:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            time.sleep(POLL)
        return code

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)


def described(program: Program) -> dict[str, Any]:
    """Return a program as JSON; its arguments begin with the module."""
    return {
        "arguments": [str(each) for each in program.arguments],
        "environment": dict(program.environment),
        "directory": str(program.directory),
    }


def preload() -> None:
    """Import what programs of the service import, but for what is left out, and read the contract."""
    gc.disable()
    gc_tuning.pause_gc = gc.disable  # no fork visits what all of them share: nothing of it becomes garbage
    for name in LIBRARIES:
        importlib.import_module(name)
    for package in map(importlib.import_module, PACKAGES):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name not in NEEDING_IT:
                importlib.import_module(module.name)
    read_contracts_once()
    Specification.load(dict(load_contract().document))
    gc.freeze()
    gc.enable()
    if LEFT_OUT in sys.modules or threading.active_count() > 1:
        raise RuntimeError(f"an import needs {LEFT_OUT} or has started a thread: it cannot be shared by forks")


def serve(connection: socket.socket) -> list[str]:
    """Answer requests; return in each fork, as the program that it is to run: the module and its arguments."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, LONGEST_MESSAGE, 1)
        if not message:
            os._exit(0)  # at the other end is nobody any more
        request = json.loads(message)
        if "ended" in request:
            process, status = os.waitpid(request["ended"], os.WNOHANG)
            connection.send(json.dumps(os.waitstatus_to_exitcode(status) if process else None).encode())
            continue
        [log] = descriptors
        follow = follow_parent(signal.SIGKILL)
        process = os.fork()
        if process == 0:
            connection.close()
            os.setsid()
            follow()
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.close(log)
            os.chdir(request["directory"])
            os.environ.clear()
            os.environ.update(request["environment"])
            arguments: list[str] = request["arguments"]
            return arguments
        os.close(log)
        connection.send(json.dumps(process).encode())


def main() -> None:
    """Serve; in a fork, run its program as the interpreter would."""
    preload()
    module, *arguments = serve(socket.socket(fileno=int(sys.argv[1])))
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.modules.pop("sitecustomize", None)
    if importlib.util.find_spec("sitecustomize"):
        importlib.import_module("sitecustomize")
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
