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
from typing import IO

from tools.embedded.places import Account

PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Program:
    """What to run, and how it is asked to stop. `account` is whom it runs as: only root can choose."""

    arguments: Sequence[str | Path]
    environment: Mapping[str, str]
    directory: Path = Path("/")
    stop_signal: signal.Signals = signal.SIGTERM
    account: Account | None = None


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


def stop_child(child: subprocess.Popen[bytes], stop_signal: signal.Signals, patience: float) -> bool:
    """Ask `child` to stop, wait up to `patience` seconds, then kill what is left of its session.

    Returns whether it stopped by itself.
    """
    if child.poll() is None:
        child.send_signal(stop_signal)
    with suppress(subprocess.TimeoutExpired):
        child.wait(patience)
    graceful = child.poll() is not None
    for process in session_members(child.pid):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    child.wait()
    return graceful


def session_members(leader: int) -> list[int]:
    """Return the processes of the session that `leader` began, zombies left out."""
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            state, _parent, _group, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                members.append(int(entry.name))
    return members


def tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log file, indented, for an error message."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])
