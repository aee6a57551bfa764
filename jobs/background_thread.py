"""Work that nobody's merge waits for, and that can take long: it goes on beside the jobs, on a thread of its own.

A server that hangs would otherwise hold up a worker that a freeze waits for (I12). At most one thread of each name runs
in a process; when the process ends, its thread ends with it, and what it had leased is taken up once the lease has run
out.
"""

import logging
from collections.abc import Callable
from threading import Lock, Thread

import sqlalchemy.exc

logger = logging.getLogger(__name__)

_lock = Lock()
_running: dict[str, Thread] = {}


def run_in_background(name: str, step: Callable[[], bool]) -> Thread:
    """Repeat `step` until it finds no work, on a thread that may be running already; returns the thread."""
    with _lock:
        running = _running.get(name)
        if running is None or not running.is_alive():
            running = _running[name] = Thread(target=_work, args=(name, step), name=f"aside-{name}", daemon=True)
            running.start()
    return running


def _work(name: str, step: Callable[[], bool]) -> None:
    try:
        while step():
            pass
    except sqlalchemy.exc.OperationalError as error:
        logger.warning("%s was cut short, the database is away: %s", name, error.orig)
    except Exception:  # nobody else hears of it; the sweeper asks for the work anew
        logger.exception("%s failed and is tried again", name)
