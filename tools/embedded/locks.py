"""File locks, which are never stale: the kernel releases one when the last process that holds its file open ends."""

import fcntl
import os
import time
from pathlib import Path


def acquire_lock(file: Path, timeout: float) -> int | None:
    """Return the descriptor that holds the lock, or None if another process still has it after `timeout` seconds.

    A child that inherits the descriptor holds the lock as well, for as long as it lives.
    """
    lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    give_up = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                os.close(lock)
                return None
            time.sleep(0.05)
        else:
            return lock
