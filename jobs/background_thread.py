"""Background threads for jobs that can take long and that no merge waits for.

In the worker's main thread, a mail server or GitHub that hangs would delay freezes (I12). Threads and their leases end
with the process.
"""

import contextvars
import logging
from collections.abc import Callable
from threading import Lock, Thread
from time import monotonic

import sqlalchemy.exc

from jobs.context import traced

logger = logging.getLogger(__name__)

_lock = Lock()
_running: dict[str, list[Thread]] = {}
"""By job."""


def run_in_background(name: str, step: Callable[[], bool], threads: int = 1) -> list[Thread]:
    """Repeat `step` until it finds no work, on threads that may be running already; return the threads."""
    with _lock:
        running = [thread for thread in _running.get(name, ()) if thread.is_alive()]
        for _ in range(threads - len(running)):
            run = contextvars.copy_context().run
            thread = Thread(target=run, args=(_work, name, step), name=f"background-{name}", daemon=True)
            thread.start()
            running.append(thread)
        _running[name] = running
    return running


class HeadStart:
    """Has the main thread wait for a job of the background, since both share one core.

    For `SECONDS` at most, and for a fifth of the time in the long run: other work waits no longer (I12).
    """

    SECONDS = 4.0
    SHARE = 0.2

    def __init__(self) -> None:
        self._left = self.SECONDS
        self._counted_at = monotonic()

    def give(self, name: str) -> None:
        """Wait until the threads of this job have ended, or its time is used up."""
        began = monotonic()
        left = min(self.SECONDS, self._left + (began - self._counted_at) * self.SHARE)
        for thread in tuple(_running.get(name, ())):
            thread.join(max(0.0, began + left - monotonic()))
        self._counted_at = monotonic()
        self._left = left - (self._counted_at - began)


def _work(name: str, step: Callable[[], bool]) -> None:
    try:
        with traced(name):
            while step():
                pass
    except sqlalchemy.exc.OperationalError as error:
        logger.warning("%s was interrupted: the database is not available: %s", name, error.orig)
    except Exception:  # the thread ends; the sweep wakes the job again
        logger.exception("%s failed and will be retried", name)
