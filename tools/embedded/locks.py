"""Locks that need no clearing up: the kernel drops one with the last process that has its file open."""

import fcntl
import os
import time
from pathlib import Path


def claim(file: Path, patience: float) -> int | None:
    """Return the descriptor that holds the lock, or None if another process still has it after `patience` seconds.

    A child that inherits the descriptor holds the lock as well, for as long as it lives.
    """
    lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    give_up = time.monotonic() + patience
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
