"""The sweep: what is due by time is recorded once and in time, whichever worker dies."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from jobs.loop_watch import EXIT_STATUS, MAX_SECONDS
from tests.faults.suite.catalogue.steps import catch_at_a_freeze, last_started
from tests.faults.suite.processes import wait_until
from tests.faults.suite.trial import Trial, fault

HUNG = 2.0 * MAX_SECONDS
"""Seconds in which a process ends whose loop hangs: it may be in a statement, which has a later deadline."""


def freezes_that_end(trial: Trial, seconds: float, count: int) -> list[str]:
    """Start freezes of one repository each, which all end so many seconds from now."""
    ends_at = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    made = []
    for name in trial.stack.acme.names[:count]:
        scope = {"type": "repositories", "repositories": [name]}
        made.append(trial.client.freeze(scope, endsAt=ends_at))
        trial.client.asking_to_lift(made[-1])  # from now on its end may come at any moment
    return made


def all_ended(trial: Trial, freezes: list[str]) -> bool:
    """True if the ends are recorded."""
    rows = trial.stack.sql("SELECT count(*) FROM freezes WHERE id = ANY(%s) AND ended_at IS NOT NULL", freezes)
    return bool(rows[0][0] == len(freezes))


def require_once(trial: Trial, freezes: list[str]) -> None:
    """Require one audit row for each end."""
    rows = trial.stack.sql(
        "SELECT f.id, count(a.id) FROM unnest(CAST(%s AS text[])) f (id) LEFT JOIN audit_entries a "
        "ON a.target->>'id' = f.id AND a.action = 'freeze.expired' GROUP BY f.id HAVING count(a.id) <> 1",
        freezes,
    )
    trial.require(not rows, f"ends were recorded otherwise than once: {rows}")


@fault("Every worker is killed while freezes end, and started again")
def killed(trial: Trial) -> None:
    workers = trial.stack.reconcilers
    freezes = freezes_that_end(trial, 2, 3)
    for worker in workers:
        worker.kill()
    wait_until(lambda: _are_over(trial, freezes), "the end of the freezes", 10)
    trial.injected()
    for worker in workers:
        worker.start()
    wait_until(lambda: all_ended(trial, freezes), "recording the ends", 60)
    require_once(trial, freezes)


def _are_over(trial: Trial, freezes: list[str]) -> bool:
    rows = trial.stack.sql("SELECT bool_and(ends_at < clock_timestamp()) FROM freezes WHERE id = ANY(%s)", freezes)
    return bool(rows[0][0])


def start(trial: Trial, name: str) -> None:
    """Start a process that sweeps, and wait until it has its lock: from then on it handles signals."""
    before = last_started(trial.stack)
    trial.stack.processes[name].start()
    wait_until(lambda: last_started(trial.stack) > before, f"the start of {name}", 20)


@contextmanager
def beside(trial: Trial, name: str) -> Iterator[None]:
    """Have another process that sweeps while the block runs; it exits with 0 on SIGTERM."""
    start(trial, name)
    yield
    other = trial.stack.processes[name]
    other.terminate()
    code = other.ended(20)
    trial.require(code == 0, f"{name} exited with {code}")


@fault("Three workers at once: the end of each freeze is recorded once")
def three_at_once(trial: Trial) -> None:
    with beside(trial, "worker-3"):
        freezes = freezes_that_end(trial, 4, 6)
        trial.injected()
        wait_until(lambda: all_ended(trial, freezes), "recording the ends", 60)
        require_once(trial, freezes)


@fault("A worker gets SIGTERM while it is idle: it exits with 0")
def stop_requested(trial: Trial) -> None:
    worker = trial.stack.processes["worker-1"]
    worker.terminate()
    trial.injected()
    code = worker.ended(20)
    trial.require(code == 0, f"it exited with {code}")
    start(trial, "worker-1")


@fault(
    "The job of a worker hangs: the worker ends, with the stacks of its threads in the log, and is started again",
    load=False,
    needs_redis=True,
    quick=False,
)
def hangs(trial: Trial) -> None:
    worker, trap = catch_at_a_freeze(trial)
    before = len(worker.log.read_text())
    worker.hang()
    trap.release()
    trial.injected()
    code = worker.ended(HUNG)
    trial.require(code == EXIT_STATUS, f"it exited with {code}")
    lines = [json.loads(line) for line in worker.log.read_text()[before:].splitlines() if '"stacks"' in line]
    stacks = {name.partition(" ")[0]: "".join(stack) for line in lines for name, stack in line["stacks"].items()}
    trial.require("sigwait" in stacks.get("MainThread", ""), f"the log has the place where it hung, and has {stacks}")
    threads = {"time", "seals", "upkeep", "heartbeat"}
    trial.require(threads <= stacks.keys(), f"the log has all threads, and has {sorted(stacks)}")
    start(trial, worker.name)
