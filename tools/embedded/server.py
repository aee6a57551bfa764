"""What the two embedded servers share: one owner per data directory, start until ready, stop for certain.

The lock of a data directory is inherited by the server. It is held for as long as any process of the server
lives and no longer, so after kill -9, of the server or of us, there is no stale state to interpret: the holder of the
lock is the only user of the data.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from tools.embedded import paths
from tools.embedded.locks import acquire_lock
from tools.embedded.processes import Program, processes, start_child, stop_child, tail

START_TIMEOUT = 30.0
STOP_TIMEOUT = 15.0


class ServerError(RuntimeError):
    """A server did not start; the message carries the end of its log."""


class EmbeddedServer:
    """A server with one data directory. `directory` is where the data really is: see `paths`."""

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]

    def __init__(self, directory: Path, *, log: Path | None = None) -> None:
        self.account = paths.server_account()
        self.directory = paths.data_directory(directory, self.account)
        self.moved = self.directory != directory.absolute()
        self.log = log or self.directory.with_name(f"{self.directory.name}.log")
        self.child: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

    def prepare(self) -> list[str | Path]:
        """Make what the server needs on disk, and return its command line."""
        raise NotImplementedError

    def is_ready(self) -> bool:
        """Return whether the server answers."""
        raise NotImplementedError

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause every process of the server during the block, as a lack of memory does."""
        pids = [self.pid, *(process for process, stat in processes() if stat.parent == self.pid)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self.child is None:
            raise RuntimeError(f"{self.name} is not running")
        return self.child.pid

    @property
    def sockets(self) -> Path:
        """The directory of the server's sockets: always the same for the same data."""
        return paths.socket_directory(self.directory, self.account)

    def start(self, timeout: float = STOP_TIMEOUT) -> Self:
        """Start, and return once the server answers. Raise ServerError if it does not. Call it from the main thread.

        `timeout` is how many seconds a predecessor on the same data may still take to stop.
        """
        paths.make_parent(self.directory)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._lock = acquire_lock(self.directory.with_name(f"{self.directory.name}.lock"), timeout)
        if self._lock is None:
            raise ServerError(f"another {self.name} is running on {self.directory}")
        try:
            program = Program(self.prepare(), self.environment(), stop_signal=self.stop_signal, account=self.account)
            with self.log.open("ab") as log:
                self.child = start_child(program, log, keep_open=(self._lock,))
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop gracefully, or by force when that takes too long; harmless when nothing runs."""
        if self.child is not None:
            stop_child(self.child, self.stop_signal, STOP_TIMEOUT)
            self.child = None
            shutil.rmtree(self.sockets, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def environment(self) -> dict[str, str]:
        """Return the server's environment: ours has nothing that it should depend on."""
        return {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def _wait_until_ready(self) -> None:
        give_up = time.monotonic() + START_TIMEOUT
        while not self.is_ready():
            if self.child is None or self.child.poll() is not None:
                raise ServerError(f"{self.name} ended while it started; the end of {self.log}:\n{tail(self.log)}")
            if time.monotonic() > give_up:
                raise ServerError(f"{self.name} does not answer; the end of {self.log}:\n{tail(self.log)}")
            time.sleep(0.01)

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()
