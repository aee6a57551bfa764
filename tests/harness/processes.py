"""Waiting for what other processes do."""

import time
from collections.abc import Callable
from pathlib import Path


def eventually(condition: Callable[[], bool], patience: float = 120.0) -> None:
    """Return as soon as the condition holds; fails after `patience` seconds."""
    give_up = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def is_gone(process: int) -> bool:
    """True if a process has ended (one that only waits to be reaped has)."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
