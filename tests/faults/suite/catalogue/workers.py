"""Workers that die, stop, and come too late. Without Redis they find the work when they sweep."""

import time
from collections import Counter

from services.reconcile.reconciler import MAX_EVALUATION_AGE
from tests.faults.suite.catalogue.steps import (
    LEASE,
    catch_at_a_freeze,
    catch_at_a_lift,
    first_caught,
    is_right,
    is_settled,
    kill_and_restart,
    trap_reconcilers,
    trap_writes,
)
from tests.faults.suite.judge import unfinished_work
from tests.faults.suite.processes import Process, wait_until
from tests.faults.suite.stack import Stack
from tests.faults.suite.tcp_proxies import Trap
from tests.faults.suite.trial import Trial, fault


@fault("A worker is killed in mid fan-out", within=90)
def killed_in_mid_fan_out(trial: Trial) -> None:
    kill_and_restart(trial, *catch_at_a_freeze(trial))
    trial.stack.skip(LEASE)


@fault("A worker dies after its write and before its record: read back, not written twice", within=90)
def dies_before_its_record(trial: Trial) -> None:
    stack = trial.stack
    before = _runs(trial)
    reconciler, trap = catch_at_a_freeze(trial, "answer")
    written = _runs(trial) - before
    kill_and_restart(trial, reconciler, trap)
    stack.skip(LEASE)
    wait_until(lambda: is_right(stack), "reading back", 90)
    twice = {head for head, count in (_runs(trial) - before).items() if head in written and count > 1}
    trial.require(written, "something had been written")
    trial.require(not twice, f"{len(twice)} of {len(written)} heads got a second check of the same verdict")


def _runs(trial: Trial) -> Counter[str]:
    """Count how often each head of `acme` was written."""
    ours = {repository.id for repository in trial.stack.acme.repositories}
    with trial.stack.github.world.lock:
        return Counter(
            f"{write['repositoryId']}@{write['headSha']}"
            for write in trial.stack.github.calls.writes
            if write["repositoryId"] in ours
        )


@fault("A worker is stopped right before its write and goes on after a lift and a new freeze", load=False)
def stopped_before_its_write(trial: Trial) -> None:
    reconciler = _stopped_before_a_success(trial)
    trial.client.freeze()
    sent = successes(trial)
    reconciler.resume()
    trial.injected()
    wait_until(lambda: successes(trial) > sent, "the late success", 30, 0.01)


@fault("A worker is stopped for longer than its lease right before its write: it sends nothing", load=False)
def stopped_for_longer_than_its_lease(trial: Trial) -> None:
    reconciler = _stopped_before_a_success(trial)
    trial.client.freeze()
    time.sleep(MAX_EVALUATION_AGE)
    wait_until(lambda: is_settled(trial.stack), "the other worker", 90)
    sent = successes(trial)
    reconciler.resume()
    trial.injected()
    time.sleep(1)
    trial.require(successes(trial) == sent, "what is out of date is not sent")


def _stopped_before_a_success(trial: Trial) -> Process:
    """Return a worker that was stopped after it had decided to send a `success`."""
    reconciler, trap = catch_at_a_lift(trial, trap_decisions)
    reconciler.pause()
    trap.release()
    return reconciler


@fault("A worker's write arrives after its lease has ended: it is corrected within 5 s", load=False, within=5)
def write_arrives_late(trial: Trial) -> None:
    reconciler, trap = catch_at_a_lift(trial)
    reconciler.pause()
    trial.client.freeze()
    wait_until(lambda: is_settled(trial.stack), "the other worker", 90)
    sent = successes(trial)
    reconciler.resume()
    trap.release()
    trial.injected()
    wait_until(lambda: successes(trial) > sent, "the late success", 30, 0.01)


def trap_decisions(stack: Stack) -> dict[Process, Trap]:
    """Lie in wait for the commit by which a worker decides to send a `success`, to `acme`'s heads or to any."""

    def decides_on_success(transaction: str) -> bool:
        decides = "nextval('evaluations')" in transaction and "SET unconfirmed = true" in transaction
        return decides and transaction.upper().endswith("COMMIT")

    return trap_reconcilers(stack, "postgres", decides_on_success, "answer")


def successes(trial: Trial) -> int:
    """Return how many `success` GitHub has received for heads of `acme`."""
    ours = {repository.id for repository in trial.stack.acme.repositories}
    with trial.stack.github.world.lock:
        writes = trial.stack.github.calls.writes
        return sum(write["repositoryId"] in ours and write["conclusion"] == "success" for write in writes)


@fault("A worker loses its lease while its write is under way: its result is refused", load=False, within=5)
def loses_its_lease(trial: Trial) -> None:
    stack, client = trial.stack, trial.client
    traps = trap_writes(stack, "answer")
    freeze = client.freeze()
    reconciler = first_caught(traps)
    reconciler.pause()
    late = client.evaluation()
    traps[reconciler].release()
    client.lift(freeze)
    stack.skip(LEASE)
    wait_until(lambda: is_settled(stack), "the other worker", 90)
    refused = stack.wire(reconciler, "postgres").trap("INSERT INTO read_backs", "answer")
    reconciler.resume()
    trial.injected()
    refused.wait(30)
    refused.release()
    trial.require(
        not stack.sql(
            "SELECT 1 FROM head_checks h JOIN pull_requests p ON p.repository_id = h.repository_id "
            "AND p.head_sha = h.head_sha AND p.state = 'open' "
            "WHERE h.evaluation <= %s AND h.organization_id = %s AND h.conclusion = 'failure'",
            late,
            stack.acme.id,
        ),
        "what the late worker wrote is recorded nowhere",
    )


@fault("A worker gets SIGTERM during a fan-out: it finishes and exits with 0")
def stop_requested(trial: Trial) -> None:
    reconciler, trap = catch_at_a_freeze(trial)
    reconciler.terminate()
    trial.injected()
    trap.release()
    code = reconciler.ended(30)
    trial.require(code == 0, f"it exited with {code}")
    trial.require(is_right(trial.stack), "it finished what it had in hand")
    reconciler.start()


@fault("One worker's database hangs in mid fan-out: another takes over", within=90)
def database_of_one_worker_hangs(trial: Trial) -> None:
    stack = trial.stack
    reconciler, trap = catch_at_a_freeze(trial)
    wire = stack.wire(reconciler, "postgres")
    wire.hang()
    trial.injected()
    trap.release()
    stack.skip(LEASE)
    wait_until(lambda: is_right(stack), "the other worker", 90)
    wire.heal()


@fault("Every connection of the workers to the database breaks in mid fan-out", within=90)
def connections_break(trial: Trial) -> None:
    stack = trial.stack
    _reconciler, trap = catch_at_a_freeze(trial, "answer")
    for one in stack.reconcilers:
        stack.wire(one, "postgres").cut()
    trial.injected()
    trap.release()
    stack.skip(LEASE)


@fault("A fan-out is cut off at every call and every transaction in turn: never a success where frozen", within=120)
def cut_off_everywhere_in_turn(trial: Trial) -> None:
    stack, client = trial.stack, trial.client
    freeze = client.freeze()
    wait_until(lambda: is_settled(stack), "the first freeze", 60)
    places = [(server, number) for server in ("postgres", "fake_github") for number in range(1, 11)]
    for server, number in trial.random.sample(places, 2 if stack.quick else 6):
        _cut_at(trial, server, number)
    client.lift(freeze)
    trial.injected()


def _cut_at(trial: Trial, server: str, number: int) -> None:
    """Break the n-th request of a fan-out, while another freeze comes and goes."""
    stack, client = trial.stack, trial.client
    seen = 0

    def is_the_one(request: str) -> bool:
        nonlocal seen
        if server == "postgres" and not request.upper().endswith("COMMIT"):
            return False
        seen += 1
        return seen == number

    traps = [stack.wire(reconciler, server).trap(is_the_one, strikes=True) for reconciler in stack.reconcilers]
    second = client.freeze()
    trial.people.push_somewhere(trial.random)
    client.lift(second)
    wait_until(lambda: any(trap.count for trap in traps) or is_settled(stack), f"{server} call {number}", 90)
    stack.skip(LEASE)
    wait_until(lambda: is_settled(stack), f"{server} cut at {number}", 90, explain=lambda: unfinished_work(stack))
    for trap in traps:
        trap.release()
