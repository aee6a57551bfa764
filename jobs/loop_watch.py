"""The watch over the loops of a process: one that does not turn for 15 seconds, or for as long as it may, ends it.

A process whose loop hangs looks alive: its heartbeats come from another thread. What it would do is not done, and what
it holds is held. So each loop is watched while it works; each statement that it sends to the database is a turn. Calls
to other servers end by their deadlines before that, and a task that takes longer works in batches. Loops that wait for
servers with longer deadlines say for how long.
"""

import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread, get_ident

logger = logging.getLogger(__name__)

MAX_SECONDS = 15
"""A loop that works turns within so long, unless it waits for what has a later deadline."""
MAX_SECONDS_OF_SLOW = 120
"""Of a loop that waits for servers with longer deadlines: a worker for Redis, a background job for a mail server."""
EXIT_STATUS = 1
_LOG_TIMEOUT = 2.0
"""Seconds after which the process ends although its stacks are not logged: what hangs may hold a lock of the log."""


def end_process() -> None:
    """Log the stacks of all threads, and end the process at once."""
    report = Thread(target=_report, daemon=True)
    report.start()
    report.join(_LOG_TIMEOUT)
    os._exit(EXIT_STATUS)


def _report() -> None:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()  # noqa: SLF001 - the only way to the stacks of other threads
    stacks = {
        f"{names.get(thread, 'unknown')} ({thread})": traceback.format_stack(frame) for thread, frame in frames.items()
    }
    logger.critical("a loop has not turned in its time, and the process ends", extra={"stacks": stacks})


class LoopWatch:
    """Watches the loops of a process.

    Seconds are counted by a thread of the process, so that the time in which the process was stopped does not count.
    """

    def __init__(self, end: Callable[[], None] = end_process) -> None:
        self._end = end
        self._seconds = 0
        self._deadlines: dict[int, int] = {}
        """By thread that works: the second by which it turns again."""
        self._within: dict[int, int] = {}
        """By thread that works: the seconds in which its loop turns again, unless it takes more for once."""

    def start(self) -> None:
        """Begin to watch, until the end of the process."""
        Thread(target=self._run, name="loop-watch", daemon=True).start()

    @contextmanager
    def working(self, within: int = MAX_SECONDS) -> Iterator[None]:
        """Watch the loop of this thread, which turns within so many seconds, during the block.

        The block may be within another one, whose loop is watched again after it.
        """
        thread = get_ident()
        outer = self._within.get(thread)
        self._within[thread] = within
        self._deadlines[thread] = self._seconds + within
        try:
            yield
        finally:
            if outer is None:
                del self._deadlines[thread], self._within[thread]
            else:
                self._within[thread] = outer
                self.turn()

    def turn(self, within: int = 0) -> None:
        """Record that the loop of this thread turns, and does so again in its time, or within so many seconds if more.

        Nothing is recorded of a thread without a loop, or whose loop does not work.
        """
        thread = get_ident()
        if thread in self._deadlines:
            self._deadlines[thread] = self._seconds + max(within, self._within[thread])

    def count(self) -> None:
        """Count a second, and end the process if a loop should have turned by now."""
        self._seconds += 1
        if any(deadline < self._seconds for deadline in list(self._deadlines.values())):
            self._end()

    def _run(self) -> None:
        pause = Event()
        while True:
            pause.wait(1)
            self.count()
