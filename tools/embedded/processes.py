"""Child processes that never outlive their parent.

Each child leads a session of its own: the terminal's Ctrl-C reaches the parent alone, which then stops its children in
the right order, and whatever a child has started is found by its session, however it has regrouped itself.
"""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from tools.embedded.paths import Account

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Program:
    """What to run, and how it is asked to stop. `account` is whom it runs as: only root can choose."""

    arguments: Sequence[str | Path]
    environment: Mapping[str, str]
    directory: Path = Path("/")
    stop_signal: signal.Signals = signal.SIGTERM
    account: Account | None = None


class Child(Protocol):
    """A process that was started, as `subprocess.Popen` has it."""

    pid: int

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its exit code. Raise TimeoutExpired."""

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it has ended."""


def start_child(program: Program, log: IO[bytes], keep_open: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    """Start a child that gets its stop signal when this thread ends, be it by kill -9; call it from the main thread.

    `keep_open` are file descriptors that it inherits.
    """
    account = program.account
    return subprocess.Popen(
        [str(argument) for argument in program.arguments],
        env=dict(program.environment),
        cwd=program.directory,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=keep_open,
        start_new_session=True,
        preexec_fn=follow_parent(program.stop_signal),  # noqa: PLW1509  only here, after the change of user, does it last
        user=account.user if account else None,
        group=account.group if account else None,
        extra_groups=[] if account else None,
    )


def follow_parent(stop_signal: signal.Signals) -> Callable[[], None]:
    """Return what a child does before it runs its program: ask the kernel for `stop_signal` at its parent's end."""
    parent = os.getpid()

    def ask_kernel() -> None:
        libc.prctl(PR_SET_PDEATHSIG, int(stop_signal), 0, 0, 0)
        if os.getppid() != parent:  # the parent ended before we asked
            os._exit(1)

    return ask_kernel


def stop_child(child: Child, stop_signal: signal.Signals, timeout: float) -> bool:
    """Ask `child` to stop, wait up to `timeout` seconds, then kill what is left of its session.

    Return True if it stopped by itself.
    """
    if child.poll() is None:
        child.send_signal(stop_signal)
    with suppress(subprocess.TimeoutExpired):
        child.wait(timeout)
    graceful = child.poll() is not None
    for process in session_members(child.pid):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    child.wait()
    return graceful


def session_members(leader: int) -> list[int]:
    """Return the processes of the session that `leader` began, zombies left out."""
    return [process for process, stat in processes() if stat.session == leader and stat.state != "Z"]


def adopt_orphans() -> None:
    """Make this process the parent of every process whose own parent ends, among those that stem from it."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants() -> list[int]:
    """Return every living process that stems from this one."""
    found = {os.getpid()}
    table = processes()
    while grown := {process for process, stat in table if stat.parent in found} - found:
        found |= grown
    alive = {process for process, stat in table if stat.state != "Z"}
    return sorted((found & alive) - {os.getpid()})


class Stat(NamedTuple):
    """What the kernel says about a process."""

    state: str
    parent: int
    session: int


def processes() -> list[tuple[int, Stat]]:
    """Return every process of the machine that we may see."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                state, parent, _group, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                found.append((int(entry.name), Stat(state, int(parent), int(session))))
    return found


def tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log file, indented, for an error message."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])
