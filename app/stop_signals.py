"""Signals that ask a process to stop, before it has begun what it would have to finish.

The first process of a container gets only signals for which it has a handler: without one it would go on waiting for
the database until it is killed.
"""

import os
import signal

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def end_when_asked() -> None:
    """End the process at once on a signal, until another handler is installed: there is nothing to finish."""
    for stop_signal in STOP_SIGNALS:
        signal.signal(stop_signal, lambda *_: os._exit(0))
