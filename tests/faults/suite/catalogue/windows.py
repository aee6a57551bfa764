"""Windows of schedules: each starts and ends once, late rather than never, whichever process dies."""

import json
import time
from datetime import UTC, datetime, timedelta
from functools import partial

from rules.ids import new_id
from tests.faults.suite.catalogue.steps import first_caught, trap_reconcilers
from tests.faults.suite.catalogue.sweeps import all_ended, beside, require_once
from tests.faults.suite.processes import Process, wait_until
from tests.faults.suite.tcp_proxies import Trap, Wire
from tests.faults.suite.trial import Trial, fault

HOUR = 3600.0
BEGUN = 3.0
"""Seconds in which a window begins whichever of two workers was killed, on a machine that is busy with all of this."""
_SCHEDULE = """
    INSERT INTO schedules (id, organization_id, name, scope, timezone, recurrence, wall_clock_window, reason,
        exceptions_allowed, enabled, allow_overlap, source, created_by, created_at, updated_at, planned_until)
    VALUES (%s, %s, %s, %s, 'UTC', '{"frequency": "once", "start_date": "2000-01-01"}',
        '{"start_time": "01:00", "end_time": "02:00"}', 'A window of the fault suite', true, true, true, 'manual',
        '{"type": "system", "id": null, "name": "Fault suite"}', '2000-01-01', '2000-01-01', '2100-01-01')
"""
_OCCURRENCE = (
    "INSERT INTO occurrences (id, organization_id, schedule_id, starts_at, ends_at) VALUES (%s, %s, %s, %s, %s)"
)
_STARTED_OTHERWISE = """
    SELECT o.id, count(DISTINCT f.id), count(DISTINCT a.id)
    FROM occurrences o LEFT JOIN freezes f ON f.occurrence_id = o.id
    LEFT JOIN audit_entries a ON a.target->>'id' = f.id AND a.action = 'freeze.started'
    WHERE o.id = ANY(%s) GROUP BY o.id HAVING count(DISTINCT f.id) <> 1 OR count(DISTINCT a.id) <> 1
"""


def plan(trial: Trial, after: float, *, length: float = HOUR, count: int = 1) -> list[str]:
    """Plan windows of one repository each, which begin so many seconds from now; returns their occurrences."""
    stack, made = trial.stack, []
    starts_at = datetime.now(UTC) + timedelta(seconds=after)
    for name in stack.acme.names[:count]:
        schedule, occurrence = new_id("sch"), new_id("occ")
        scope = json.dumps({"type": "repositories", "repositories": [name]})
        stack.sql(_SCHEDULE, schedule, stack.acme.id, f"Window of {name}", scope)
        ends_at = starts_at + timedelta(seconds=length)
        stack.sql(_OCCURRENCE, occurrence, stack.acme.id, schedule, starts_at, ends_at)
        made.append(occurrence)
    return made


def all_started(trial: Trial, occurrences: list[str]) -> bool:
    """True if all of them have started."""
    rows = trial.stack.sql("SELECT bool_and(started_at IS NOT NULL) FROM occurrences WHERE id = ANY(%s)", occurrences)
    return bool(rows[0][0])


def freezes_of(trial: Trial, occurrences: list[str]) -> list[str]:
    """Return the freezes that the windows started."""
    return [row[0] for row in trial.stack.sql("SELECT id FROM freezes WHERE occurrence_id = ANY(%s)", occurrences)]


def require_begun_once(trial: Trial, occurrences: list[str]) -> None:
    """Require one freeze and one audit row for each window, and that all of it is frozen."""
    rows = trial.stack.sql(_STARTED_OTHERWISE, occurrences)
    trial.require(not rows, f"windows began otherwise than once: {rows}")


def _have_connected(wires: list[Wire], before: list[int]) -> bool:
    """True if every wire has taken a connection since."""
    return all(wire.taken > count for wire, count in zip(wires, before, strict=True))


@fault("The workers are killed again and again while windows begin")
def killed_while_windows_begin(trial: Trial) -> None:
    stack = trial.stack
    workers = stack.reconcilers
    for worker in workers:
        worker.kill()
    occurrences = plan(trial, -1, count=len(stack.acme.names))
    for _ in range(2):
        wires = [stack.wire(worker, "postgres") for worker in workers]
        before = [wire.taken for wire in wires]
        for worker in workers:
            worker.start()
        wait_until(partial(_have_connected, wires, before), "the workers")
        wait_until(lambda: trial.random.random() < 0.05 or all_started(trial, occurrences), "a moment", 30, 0.01)
        for worker in workers:
            worker.kill()
    trial.injected()
    for worker in workers:
        worker.start()
    wait_until(lambda: all_started(trial, occurrences), "the beginning of the windows", 60)
    require_begun_once(trial, occurrences)


@fault("Three workers at once: each window begins and ends once")
def windows_of_several(trial: Trial) -> None:
    with beside(trial, "worker-3"):
        occurrences = plan(trial, 1, length=3, count=6)
        trial.injected()
        wait_until(lambda: all_started(trial, occurrences), "the beginning of the windows", 60)
        require_begun_once(trial, occurrences)
        wait_until(lambda: all_ended(trial, freezes_of(trial, occurrences)), "the end of the windows", 60)
        require_once(trial, freezes_of(trial, occurrences))


@fault("One of two workers is killed while it begins a window: the other one begins it in time", load=False)
def killed_while_it_begins_a_window(trial: Trial) -> None:
    """The worker that holds the sweep dies within the transaction that begins the window."""
    occurrences = plan(trial, 3)

    def begins(transaction: str) -> bool:
        return "INSERT INTO freezes" in transaction

    traps = trap_reconcilers(trial.stack, "postgres", begins, trial.random.choice(("request", "answer")))
    worker = first_caught(traps, 30)
    require_in_time(trial, occurrences, worker, traps[worker])


@fault("One of two workers is killed at any moment around the start of a window: it begins in time", load=False)
def killed_around_a_window(trial: Trial) -> None:
    occurrences = plan(trial, 2)
    time.sleep(trial.random.uniform(0.5, 2.5))
    require_in_time(trial, occurrences, trial.random.choice(trial.stack.reconcilers))


def require_in_time(trial: Trial, occurrences: list[str], worker: Process, trap: Trap | None = None) -> None:
    """Kill a worker, and require that the windows begin in time without it, once."""
    worker.kill()
    trial.injected()
    killed_at = datetime.now(UTC)
    if trap is not None:
        trap.cut()
    wait_until(lambda: all_started(trial, occurrences), "the beginning of the windows", 30)
    late = trial.stack.sql(
        "SELECT max(extract(epoch FROM started_at - greatest(starts_at, %s))) FROM occurrences WHERE id = ANY(%s)",
        killed_at,
        occurrences,
    )
    trial.require(late[0][0] <= BEGUN, f"the windows begin within {BEGUN} s, and began after {late[0][0]} s")
    require_begun_once(trial, occurrences)
    worker.start()


@fault("No worker runs for hours: a window that is open begins late, one that has passed is missed")
def no_worker_for_hours(trial: Trial) -> None:
    stack = trial.stack
    workers = stack.reconcilers
    for worker in workers:
        worker.kill()
    passed = plan(trial, -2 * HOUR)
    still_open = plan(trial, -HOUR / 2, count=3)
    trial.injected()
    for worker in workers:
        worker.start()
    wait_until(lambda: all_started(trial, still_open), "the beginning of what is open", 60)
    require_begun_once(trial, still_open)
    late = stack.sql("SELECT bool_and(late) FROM occurrences WHERE id = ANY(%s)", still_open)
    trial.require(late[0][0], "windows that began late say so")
    missed = "SELECT missed_at IS NOT NULL AND freeze_id IS NULL FROM occurrences WHERE id = ANY(%s)"
    wait_until(lambda: stack.sql(missed, passed) == [(True,)], "recording what has passed", 30)


@fault("PostgreSQL crashes as windows begin: each begins once", load=False)
def database_crashes_as_windows_begin(trial: Trial) -> None:
    stack = trial.stack
    occurrences = plan(trial, 1.0, count=len(stack.acme.names))
    wait_until(lambda: bool(freezes_of(trial, occurrences)), "the first window", 30, 0.01)
    stack.stop_postgres(crash=True)
    trial.injected()
    stack.start_postgres()
    wait_until(lambda: all_started(trial, occurrences), "the beginning of the windows", 60)
    require_begun_once(trial, occurrences)
