"""Lets the main thread of a Python process hang, while its other threads run: from SIGUSR1 on, until SIGUSR2.

Python runs handlers of signals in the main thread, between two of its instructions or inside a call that waits. That
thread runs the jobs of a worker. A process that has this directory on its PYTHONPATH imports a module of this name
before anything else.
"""

import signal
from types import FrameType


def _hang(_number: int, _frame: FrameType | None) -> None:
    signal.sigwait({signal.SIGUSR2})


signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
signal.signal(signal.SIGUSR1, _hang)
