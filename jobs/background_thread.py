"""Background threads for jobs that can take long and that no merge waits for.

In the worker's main thread, a mail server or GitHub that hangs would delay freezes (I12). At most one thread per job
runs in a process. Threads and their leases end with the process.
"""

import contextvars
import logging
from collections.abc import Callable
from threading import Lock, Thread

import sqlalchemy.exc

from jobs.context import traced

logger = logging.getLogger(__name__)

_lock = Lock()
_running: dict[str, Thread] = {}


def run_in_background(name: str, step: Callable[[], bool]) -> Thread:
    """Repeat `step` until it finds no work, on a thread that may be running already; return the thread."""
    with _lock:
        running = _running.get(name)
        if running is None or not running.is_alive():
            run = contextvars.copy_context().run
            running = _running[name] = Thread(
                target=run, args=(_work, name, step), name=f"background-{name}", daemon=True
            )
            running.start()
    return running


def _work(name: str, step: Callable[[], bool]) -> None:
    try:
        with traced(name):
            while step():
                pass
    except sqlalchemy.exc.OperationalError as error:
        logger.warning("%s was interrupted: the database is not available: %s", name, error.orig)
    except Exception:  # the thread ends; the sweep wakes the job again
        logger.exception("%s failed and will be retried", name)
