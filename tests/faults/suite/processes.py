"""The processes of the service: started, signalled, and waited for."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from tests.faults.suite.fork_server import ForkServer
from tools.embedded.processes import Child, Program, session_members, start_child, stop_child, tail

ROOT = Path(__file__).resolve().parents[3]
SHIFTED_CLOCK = Path(__file__).with_name("shifted_clock")
HUNG_THREAD = Path(__file__).with_name("hung_thread")
Arguments = list[str]


class Process:
    """One program of the service; it can be started again under the same name."""

    def __init__(
        self,
        name: str,
        arguments: Arguments,
        environment: Mapping[str, str],
        log: Path,
        directory: Path = ROOT,
        fork_server: ForkServer | None = None,
    ) -> None:
        self.name, self.log = name, log
        self.directory = directory
        """Whose code the next start runs."""
        self.environment = {**os.environ, **environment, "PYTHONUNBUFFERED": "1"}
        self._arguments = arguments
        self._fork_server = fork_server
        self._child: Child | None = None
        self._clock_shift = 0.0
        self._hangs = False

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._child is not None, f"{self.name} was never started"
        return self._child.pid

    @property
    def runs(self) -> bool:
        """True if it runs."""
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        """Start it, unless it runs."""
        if not self.runs:
            environment = {**self.environment, **self._clock()}
            if self._fork_server and self.directory == ROOT and not self._clock_shift:
                self._child = self._fork_server.start(Program(self._arguments, environment, ROOT), self.log)
            else:
                command = [sys.executable, "-m", *self._arguments]
                program = Program(command, environment, directory=self.directory, stop_signal=signal.SIGKILL)
                with self.log.open("ab") as log:
                    self._child = start_child(program, log)
            self._hangs = False

    def set_clock(self, shift: float) -> None:
        """End it in order if its clock is to be wrong by other seconds, which the next start does."""
        if shift != self._clock_shift and self.runs:
            self.terminate()
            with suppress(AssertionError):
                self.ended(20)
            self.kill()
        self._clock_shift = shift

    def _clock(self) -> dict[str, str]:
        if not self._clock_shift:
            return {}
        return {"PYTHONPATH": str(SHIFTED_CLOCK), "CLOCK_SHIFT": str(self._clock_shift)}

    def kill(self) -> None:
        """Kill -9 it and all its children, and wait until they are gone."""
        if self._child is not None:
            stop_child(self._child, signal.SIGKILL, 5)

    def kill_parent_only(self) -> None:
        """Kill -9 the process that was started, and none of its children."""
        os.kill(self.pid, signal.SIGKILL)
        assert self._child is not None
        self._child.wait(5)

    def pause(self) -> None:
        """SIGSTOP it."""
        self._signal(signal.SIGSTOP)

    def hang(self) -> None:
        """Have its main thread hang, wherever it is; its other threads run."""
        os.kill(self.pid, signal.SIGUSR1)
        self._hangs = True

    def resume(self) -> None:
        """Let it continue if it is paused or hangs, and has not ended for that."""
        self._signal(signal.SIGCONT)
        if self._hangs and self.runs:
            os.kill(self.pid, signal.SIGUSR2)
            self._hangs = False

    def terminate(self) -> None:
        """SIGTERM it, and do not wait."""
        os.kill(self.pid, signal.SIGTERM)

    def ended(self, patience: float) -> int:
        """Wait for its end and return its exit code (negative: the signal that ended it)."""
        assert self._child is not None
        try:
            return self._child.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {patience:.0f} s:\n{tail(self.log)}") from None

    def children(self) -> list[int]:
        """Return the processes that it has started and that live."""
        return [process for process in session_members(self.pid) if process != self.pid]

    def _signal(self, number: signal.Signals) -> None:
        for process in session_members(self.pid):
            with suppress(ProcessLookupError):
                os.kill(process, number)


def wait_until(
    condition: Callable[[], object],
    what: str,
    patience: float = 60.0,
    every: float = 0.03,
    explain: Callable[[], str] = lambda: "",
) -> float:
    """Poll until `condition()` is true, and return how many seconds it took; fail after `patience`, and explain it."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < patience, f"{what}: not within {patience:.0f} s {explain()}"
        time.sleep(every)
    return time.monotonic() - began
