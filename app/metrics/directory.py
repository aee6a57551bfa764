"""The directory in which the worker processes of one gunicorn share their metrics."""

import atexit
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "change-freeze-metrics-"
_LOCK = "lock"


def make_metrics_directory() -> str:
    """Return a new directory for this process and those that it forks; it is removed when this process ends.

    Directories of processes that were killed are removed as well: their locks are not held any more.
    """
    for former in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        _remove_unless_used(former)
    directory = tempfile.mkdtemp(prefix=_PREFIX)
    lock = os.open(Path(directory, _LOCK), os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(directory, ignore_errors=True)

    atexit.register(remove)
    return directory


def _remove_unless_used(directory: Path) -> None:
    try:
        lock = os.open(directory / _LOCK, os.O_RDWR)
    except OSError:  # of another account, or removed meanwhile
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory, ignore_errors=True)
    except BlockingIOError:
        pass  # in use
    finally:
        os.close(lock)
