"""Moves that several faults begin with."""

import time
from collections.abc import Callable, Mapping

from services.core.work_queue import LEASE_DURATION
from tests.faults.suite.judge import is_busy, wrong_heads
from tests.faults.suite.processes import Process, wait_until
from tests.faults.suite.stack import Stack
from tests.faults.suite.tcp_proxies import Place, Trap
from tests.faults.suite.trial import Trial

LEASE = LEASE_DURATION.total_seconds()
"""Seconds that a branch stays leased to a worker that makes no progress."""

ANSWER_TIMEOUT = 5.0
"""Seconds in which a freeze or a lift is answered: less than a call of mail, Slack or a webhook may take."""
_RUNS = """
    SELECT 1 FROM lease_holders h JOIN pg_locks l ON l.locktype = 'advisory' AND l.objid = CAST(h.id AS oid)
    WHERE h.kind = 'worker' AND h.id > %s AND h.beat_at > clock_timestamp() - interval '5 seconds'
"""
"""A worker that holds its lock and has a heartbeat, and a number above another process."""


def last_started(stack: Stack) -> int:
    """Return the number of the process that started last."""
    return int(stack.sql("SELECT coalesce(max(id), 0) FROM lease_holders")[0][0])


def wait_for_workers(stack: Stack, after: int = 0) -> None:
    """Wait until a worker runs that started after another process."""
    wait_until(lambda: stack.sql(_RUNS, after), "the start of a worker", 30)


def is_right(stack: Stack) -> bool:
    """True if every head of `acme` is right, though leases may still be held."""
    return not wrong_heads(stack, stack.acme)


def is_settled(stack: Stack) -> bool:
    """True if every head of `acme` is right, and no process works on it."""
    return is_right(stack) and not is_busy(stack, stack.acme)


def trap_reconcilers(
    stack: Stack, server: str, request: Callable[[str], bool] | str, place: Place = "request"
) -> dict[Process, Trap]:
    """Lie in wait on the wire of everyone who does the fan-out."""
    return {reconciler: stack.wire(reconciler, server).trap(request, place) for reconciler in stack.reconcilers}


def trap_writes(stack: Stack, place: Place = "request") -> dict[Process, Trap]:
    """Lie in wait for a write of checks to `acme`'s heads."""
    ids = [repository.node_id for repository in stack.acme.repositories]

    def is_ours(request: str) -> bool:
        return "createCheckRun" in request and any(one in request for one in ids)

    return trap_reconcilers(stack, "fake_github", is_ours, place)


def first_caught(traps: Mapping[Process, Trap], patience: float = 60.0) -> Process:
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


def catch_at_a_freeze(trial: Trial, place: Place = "request") -> tuple[Process, Trap]:
    """Start a freeze; return the process whose write of checks is caught first, and its trap."""
    traps = trap_writes(trial.stack, place)
    trial.client.freeze()
    reconciler = first_caught(traps)
    return reconciler, traps[reconciler]


def catch_at_a_lift(
    trial: Trial, lie_in_wait: Callable[[Stack], Mapping[Process, Trap]] = trap_writes
) -> tuple[Process, Trap]:
    """Lift a freeze that has been written; return the process that is caught first, and its trap."""
    freeze = trial.client.freeze()
    wait_until(lambda: is_settled(trial.stack), "the first freeze", 60)
    traps = lie_in_wait(trial.stack)
    trial.client.lift(freeze)
    reconciler = first_caught(traps)
    return reconciler, traps[reconciler]


def kill_and_restart(trial: Trial, process: Process, trap: Trap) -> None:
    """Kill the process that was caught, count the recovery from now on, and start it again as a supervisor does."""
    process.kill()
    trial.injected()
    trap.cut()
    process.start()


def freeze_and_lift(trial: Trial) -> str:
    """Freeze and lift, require that neither waits for notifications, and return the id of the freeze."""
    began = len(trial.ledger.answers)
    freeze = trial.client.freeze()
    wait_until(lambda: is_settled(trial.stack), "the freeze at GitHub", 30)
    trial.client.lift(freeze)
    wait_until(lambda: is_settled(trial.stack), "the lift at GitHub", 30)
    with trial.ledger.lock:
        slow = [f"{what} took {took:.1f} s" for what, _, took in trial.ledger.answers[began:] if took > ANSWER_TIMEOUT]
    trial.require(not slow, "; ".join(slow))
    return freeze
