"""Workers that are stopped (SIGSTOP) or hang, in a transaction, in a call or idle, and wake late; or none that runs.

A worker that is stopped writes no heartbeats. One whose main thread hangs does, so that only its leases end; that
thread runs the jobs of wake-ups, so there is none of this without Redis.

Nothing here skips stored time: heartbeats and the server's timeouts are waited for.
"""

import time
from typing import Any

import requests

from tests.faults.suite.catalogue.kills import random_moment
from tests.faults.suite.catalogue.steps import catch_at_a_lift, first_caught, is_right, is_settled, trap_reconcilers
from tests.faults.suite.catalogue.sweeps import beside
from tests.faults.suite.catalogue.workers import successes, trap_decisions
from tests.faults.suite.client import new_key
from tests.faults.suite.load import Load
from tests.faults.suite.processes import Process, wait_until
from tests.faults.suite.trial import Trial, fault

ANSWERED = 8.0
"""Seconds in which a request is answered that needs rows which a stopped worker has locked."""
OVERTAKEN = 20.0
"""Seconds in which others have done the work of a worker that makes no progress."""
CORRECTED = 5.0
"""Seconds in which what a worker writes on waking is corrected."""
REPORTED = 62.0
"""Seconds in which the API reports that nothing runs, and one more sweep."""
AWAKE = 2.0
"""Seconds in which a worker that wakes does what it was about to do."""


def wake(trial: Trial, *reconcilers: Process) -> None:
    """Let stopped workers continue, and require that what they write late is corrected."""
    for reconciler in reconcilers:
        reconciler.resume()
    trial.injected()
    time.sleep(AWAKE)
    wait_until(lambda: is_right(trial.stack), "correction of what was written late", CORRECTED - AWAKE)


def answered(trial: Trial, path: str, body: dict[str, Any], status: int) -> Any:
    """Send a write once, require that it is answered in time, and return the body of the response."""
    began = time.monotonic()
    response = trial.client.request("POST", path, body, key=new_key(), timeout=40)
    seconds = time.monotonic() - began
    trial.require(response.status_code == status, f"{path} was answered with {response.status_code}")
    trial.require(seconds < ANSWERED, f"{path} was answered after {seconds:.1f} s")
    return response.json()


@fault("Stopped workers: one within a transaction; requests are answered, and another overtakes it", within=30)
def in_a_transaction(trial: Trial) -> None:
    stack, client = trial.stack, trial.client

    def evaluates(transaction: str) -> bool:
        ours = "nextval('evaluations')" in transaction and any(one in transaction for one in stack.acme.branches)
        return ours and not transaction.upper().endswith("COMMIT")

    traps = trap_reconcilers(stack, "postgres", evaluates, "answer")
    first = client.freeze()
    reconciler = first_caught(traps)
    reconciler.pause()
    traps[reconciler].release()
    began = time.monotonic()
    client.asking_to_lift(first)
    answered(trial, f"/v1/freezes/{first}/lift", {"reason": "It is over"}, 200)
    client.ledger.freezes[first].lifted = True
    client.freeze({"type": "repositories", "repositories": stack.acme.names[:3]})
    wait_until(lambda: is_right(stack), "the other worker", OVERTAKEN - (time.monotonic() - began))
    wake(trial, reconciler)


@fault("Stopped workers: one while it is idle; another one does the work", within=30)
def idle(trial: Trial) -> None:
    stack = trial.stack
    wait_until(lambda: is_settled(stack), "rest", 30)
    reconciler = stack.reconcilers[0]
    reconciler.pause()
    trial.client.freeze()
    wait_until(lambda: is_right(stack), "the other worker", OVERTAKEN)
    wake(trial, reconciler)


@fault(
    "Stopped workers: all of them while they are idle; one that is started does their work",
    within=30,
    quick=False,
)
def every_worker(trial: Trial) -> None:
    stack = trial.stack
    wait_until(lambda: is_settled(stack), "rest", 30)
    for reconciler in stack.reconcilers:
        reconciler.pause()
    trial.client.freeze()
    with beside(trial, "worker-3"):
        wait_until(lambda: is_right(stack), "the new worker", OVERTAKEN)
        wake(trial, *stack.reconcilers)


@fault(
    "Hung workers: one between two calls; another overtakes it, and it sends nothing on waking",
    load=False,
    needs_redis=True,
    quick=False,
)
def hangs_between_calls(trial: Trial) -> None:
    reconciler, trap = catch_at_a_lift(trial, trap_decisions)
    reconciler.hang()
    trap.release()
    trial.client.freeze()
    wait_until(lambda: is_settled(trial.stack), "the other worker", OVERTAKEN)
    sent = successes(trial)
    wake(trial, reconciler)
    trial.require(successes(trial) == sent, "what is out of date is not sent")


@fault(
    "Hung workers: one in a call; another overtakes it, and a write that arrives late is corrected",
    load=False,
    needs_redis=True,
    quick=False,
)
def hangs_in_a_call(trial: Trial) -> None:
    reconciler, trap = catch_at_a_lift(trial)
    reconciler.hang()
    trial.client.freeze()
    wait_until(lambda: is_settled(trial.stack), "the other worker", OVERTAKEN)
    sent = successes(trial)
    trap.release()
    wait_until(lambda: successes(trial) > sent, "the late success", 5, 0.01)
    wake(trial, reconciler)


@fault("Stopped workers: one at any moment of pushes, freezes and lifts, which wakes late", within=60, quick=False)
def wakes_late(trial: Trial) -> None:
    stack = trial.stack
    traps = trap_reconcilers(stack, *random_moment(trial))
    with Load(stack, trial.ledger, trial.random.randrange(2**32), of=stack.acme) as load:
        reconciler = first_caught(traps)
        reconciler.pause()
        traps[reconciler].release()
        time.sleep(trial.random.uniform(1, OVERTAKEN))
        reconciler.resume()
        trial.injected()
    wait_until(lambda: is_right(stack), "correction of what was written late", CORRECTED)
    trial.require(not load.failures, f"requests failed meanwhile: {load.failures}")


@fault("Every worker is killed: readiness and attention items report it within a minute", quick=False)
def nothing_runs(trial: Trial) -> None:
    stack = trial.stack
    processes = [process for name, process in stack.processes.items() if name != "api" and process.runs]
    for process in processes:
        process.kill()
    trial.client.freeze()
    expected = {("process_down", "worker"), ("enforcement_late", "critical")}
    wait_until(lambda: reported(trial) >= expected, "the attention items", REPORTED)
    checks = requests.get(f"{stack.address}/readyz", timeout=5).json()["checks"]
    trial.require(checks["sweeper"] == "unavailable", f"/readyz shows {checks}")
    for process in processes:
        process.start()
    trial.injected()
    wait_until(lambda: not reported(trial), "the end of the attention items", REPORTED)


def reported(trial: Trial) -> set[tuple[str, str]]:
    """Return the attention items about the service itself: the kind of process, or how severe it is."""
    items = trial.client.insist("GET", "/v1/attention").json()["data"]
    return {
        (item["type"], item["subject"]["id"] if item["type"] == "process_down" else item["severity"])
        for item in items
        if item["type"] in {"process_down", "enforcement_late"}
    }
