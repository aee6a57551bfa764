"""Moves that several faults begin with."""

import time
from collections.abc import Mapping

from tests.faults.suite.processes import Process
from tests.faults.suite.stack import Stack
from tests.faults.suite.wires import Place, Trap


def trap_hands(stack: Stack, server: str, request: str, place: Place = "request") -> dict[Process, Trap]:
    """Lie in wait on the wire of everyone who does the fan-out."""
    return {hand: stack.wire(hand, server).trap(request, place) for hand in stack.hands}


def first_caught(traps: Mapping[Process, Trap], patience: float = 15.0) -> Process:
    """Return the process whose trap catches first, and let go of the others."""
    give_up = time.monotonic() + patience
    while time.monotonic() < give_up:
        for process, trap in traps.items():
            if trap.caught.is_set():
                for other in traps.values():
                    if other is not trap:
                        other.release()
                return process
        time.sleep(0.005)
    raise AssertionError(f"nothing was caught within {patience:.0f} s")
