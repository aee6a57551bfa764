"""Redis that forgets, stops, hangs and is full: it is needed for speed alone."""

import time

from redis import Redis

from tests.faults.suite.catalogue.steps import is_right
from tests.faults.suite.processes import Process, wait_until
from tests.faults.suite.trial import Trial, fault

MAX_DELAY = 1.0
"""Seconds that a freeze may take longer without Redis than with it: it waits for `SOCKET_TIMEOUT`, and tries once."""
LONGER_THAN_WORKERS_WAIT = 45
"""Seconds of silence after which RQ's worker has quit: 15 for a job, and 15 for each answer (`app/worker.py`)."""


class TimedFreezes:
    """Freezes that are timed against one that was started before the fault, on the same busy machine."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        began = time.monotonic()
        trial.client.freeze()
        self._usual = time.monotonic() - began

    def start(self) -> str:
        """Start a freeze and return its id. Note it as a broken promise if Redis has delayed it."""
        began = time.monotonic()
        freeze = self._trial.client.freeze()
        delay = time.monotonic() - began - self._usual
        self._trial.require(delay <= MAX_DELAY, f"a freeze took {delay:.2f} s longer than with Redis")
        return freeze


def _admin(trial: Trial) -> Redis:
    return Redis.from_url(trial.stack.valkey.url)


@fault("Redis loses everything between a freeze and its fan-out (FLUSHALL)", needs_redis=True)
def flushed(trial: Trial) -> None:
    stack = trial.stack
    for reconciler in stack.reconcilers:
        reconciler.pause()
    trial.client.freeze()
    with _admin(trial) as redis:
        redis.flushall()
    trial.injected()
    for reconciler in stack.reconcilers:
        reconciler.resume()


@fault("Redis is down when a freeze begins, and comes back", within=90, needs_redis=True)
def down(trial: Trial) -> None:
    stack = trial.stack
    freezes = TimedFreezes(trial)
    stack.valkey.stop()
    trial.injected()
    freezes.start()
    wait_until(lambda: is_right(stack), "the fan-out without Redis", 60)
    stack.start_redis()
    freezes.start()


@fault("Redis hangs: connections are taken and nothing is answered", within=90, needs_redis=True)
def hung(trial: Trial) -> None:
    stack = trial.stack
    freezes = TimedFreezes(trial)
    stack.wires_to("redis").hang()
    trial.injected()
    freezes.start()
    wait_until(lambda: is_right(stack), "the fan-out without Redis", 60)
    stack.wires_to("redis").heal()


@fault("Redis is out of memory and evicts nothing", within=90, needs_redis=True)
def out_of_memory(trial: Trial) -> None:
    stack = trial.stack
    freezes = TimedFreezes(trial)
    with _admin(trial) as redis:
        redis.config_set("maxmemory", "1")
        try:
            trial.injected()
            freezes.start()
            wait_until(lambda: is_right(stack), "the fan-out with a full Redis", 60)
        finally:
            redis.config_set("maxmemory", "0")


@fault("Redis is restarted in mid fan-out", within=90, needs_redis=True)
def restarted(trial: Trial) -> None:
    stack = trial.stack
    trial.client.freeze()
    stack.valkey.stop()
    trial.injected()
    stack.start_redis()


@fault("Redis hangs for longer than a worker waits: the workers take wake-ups again", needs_redis=True, quick=False)
def hung_for_long(trial: Trial) -> None:
    stack = trial.stack
    freezes = TimedFreezes(trial)
    stack.wires_to("redis").hang()
    time.sleep(LONGER_THAN_WORKERS_WAIT)
    stack.wires_to("redis").heal()
    trial.injected()
    before = {reconciler: _jobs_done(reconciler) for reconciler in stack.reconcilers}

    def workers_are_back() -> bool:
        trial.client.lift(freezes.start())
        return all(_jobs_done(reconciler) > jobs for reconciler, jobs in before.items())

    wait_until(workers_are_back, "workers that do their work again", 45, every=0.5)
    trial.require(all(reconciler.runs for reconciler in stack.reconcilers), "the workers run")


def _jobs_done(reconciler: Process) -> int:
    """Return how many jobs a worker has done that a wake-up named: it logs each (`WakeupWorker.perform_job`)."""
    return reconciler.log.read_text().count('"event": "job"')


@fault(
    "Redis answers, and every worker hangs that takes wake-ups: the sweep does the work",
    within=90,
    needs_redis=True,
    load=False,
    quick=False,
)
def wakeups_are_not_taken(trial: Trial) -> None:
    stack = trial.stack
    freezes = TimedFreezes(trial)
    for reconciler in stack.reconcilers:
        reconciler.hang()
    trial.injected()
    freezes.start()
    wait_until(lambda: is_right(stack), "the fan-out by the sweep", 40)
