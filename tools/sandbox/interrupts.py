"""How the sandbox is stopped: Ctrl-C, SIGTERM, a closed terminal, or the end of the `make` that runs it."""

import os
import signal
from pathlib import Path
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """The request to stop the sandbox; like KeyboardInterrupt, it passes every `except Exception`."""


def listen() -> None:
    """Raise Interrupted in the main thread at the first signal; a hang-up that `nohup` ignores stays ignored."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise Interrupted(signal.Signals(number).name)

    for each in SIGNALS:
        if each != signal.SIGHUP or signal.getsignal(each) != signal.SIG_IGN:
            signal.signal(each, interrupt)


def ignore() -> None:
    """Ignore further signals while the sandbox stops, which takes a bounded time."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)


class Make:
    """The `make` above us, if there is one.

    A terminal's Ctrl-C reaches us as well as make. A signal sent to make alone does not: make then waits until
    we end. It can be recognised, because make no longer catches SIGINT.
    """

    def __init__(self) -> None:
        self.process = os.getppid()
        self.catching = self._is_make() and self._catches()

    def has_been_stopped(self) -> bool:
        """Return True if make was interrupted or killed since this object was made."""
        return self.catching and (os.getppid() != self.process or not self._catches())

    def _is_make(self) -> bool:
        return self._read("comm").strip() in {"make", "gmake"}

    def _catches(self) -> bool:
        masks = [line.split()[1] for line in self._read("status").splitlines() if line.startswith("SigCgt:")]
        return bool(masks) and bool(int(masks[0], 16) >> (signal.SIGINT - 1) & 1)

    def _read(self, name: str) -> str:
        try:
            return Path(f"/proc/{self.process}/{name}").read_text()
        except OSError:
            return ""
