"""Redis that forgets, stops, hangs and is full: it is needed for speed alone."""

import time

from redis import Redis

from tests.faults.suite.catalogue.steps import is_right
from tests.faults.suite.processes import Process, wait_until
from tests.faults.suite.trial import Trial, fault

LONGEST_REQUEST = 1.0
LONGER_THAN_WORKERS_WAIT = 45
"""Seconds of silence after which RQ's worker has quit: 15 for a job, and 15 for each answer (`app/worker.py`)."""


def freeze_in_time(trial: Trial) -> str:
    """Start a freeze, and note it when the answer takes longer than a second."""
    began = time.monotonic()
    freeze = trial.client.freeze()
    took = max(seconds for asked, _status, seconds in trial.ledger.answers if asked == "POST /v1/freezes")
    trial.require(took <= LONGEST_REQUEST, f"a request took {took:.2f} s")
    trial.require(time.monotonic() - began <= 2 * LONGEST_REQUEST, "it was answered the first time")
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
    stack.stop_redis()
    trial.injected()
    freeze_in_time(trial)
    wait_until(lambda: is_right(stack), "the fan-out without Redis", 60)
    stack.start_redis()
    freeze_in_time(trial)


@fault("Redis hangs: connections are taken and nothing is answered", within=90, needs_redis=True)
def hung(trial: Trial) -> None:
    stack = trial.stack
    for wire in stack.wires_to("redis"):
        wire.hang()
    trial.injected()
    freeze_in_time(trial)
    wait_until(lambda: is_right(stack), "the fan-out without Redis", 60)
    for wire in stack.wires_to("redis"):
        wire.heal()


@fault("Redis is out of memory and evicts nothing", within=90, needs_redis=True)
def out_of_memory(trial: Trial) -> None:
    stack = trial.stack
    with _admin(trial) as redis:
        redis.config_set("maxmemory", "1")
        try:
            trial.injected()
            freeze_in_time(trial)
            wait_until(lambda: is_right(stack), "the fan-out with a full Redis", 60)
        finally:
            redis.config_set("maxmemory", "0")


@fault("Redis is restarted in mid fan-out", within=90, needs_redis=True)
def restarted(trial: Trial) -> None:
    stack = trial.stack
    trial.client.freeze()
    stack.stop_redis()
    trial.injected()
    stack.start_redis()


@fault("Redis hangs for longer than a worker waits: the workers restart", needs_redis=True, quick=False)
def hung_for_long(trial: Trial) -> None:
    stack = trial.stack
    for wire in stack.wires_to("redis"):
        wire.hang()
    time.sleep(LONGER_THAN_WORKERS_WAIT)
    for wire in stack.wires_to("redis"):
        wire.heal()
    trial.injected()
    before = {reconciler: _jobs_done(reconciler) for reconciler in stack.reconcilers}

    def workers_are_back() -> bool:
        trial.client.lift(freeze_in_time(trial))
        return all(_jobs_done(reconciler) > jobs for reconciler, jobs in before.items())

    wait_until(workers_are_back, "workers that do their work again", 45, every=0.5)
    trial.require(all(reconciler.runs for reconciler in stack.reconcilers), "the workers run")


def _jobs_done(reconciler: Process) -> int:
    return reconciler.log.read_text().count("Successfully completed job")


@fault(
    "Redis answers, and every worker is dead: the sweeper does their work",
    within=90,
    needs_redis=True,
    load=False,
    quick=False,
)
def workers_are_dead(trial: Trial) -> None:
    stack = trial.stack
    for reconciler in stack.reconcilers:
        reconciler.kill()
    trial.injected()
    freeze_in_time(trial)
    wait_until(lambda: is_right(stack), "the fan-out by the sweeper", 40)
