"""Kills: processes that die at any moment of a fan-out, and the time until another one has finished it.

Nothing here skips stored time: PostgreSQL itself notices the death, and ends the leases.
"""

import time
from collections.abc import Callable, Sequence

from tests.faults.suite.catalogue.steps import (
    catch_at_a_freeze,
    first_caught,
    is_settled,
    kill_and_restart,
    trap_reconcilers,
    wait_for_workers,
)
from tests.faults.suite.processes import wait_until
from tests.faults.suite.tcp_proxies import Place
from tests.faults.suite.trial import Trial, fault

BOUND = 15.0
"""Seconds in which, on one host, the work of a process that was killed is finished by another one."""
RESTART_BOUND = 15.0
"""The same where none is left, and a supervisor starts the process again: that alone takes seconds."""
MOMENTS = [("postgres", number) for number in range(1, 7)] + [("fake_github", number) for number in range(1, 4)]
"""Transactions and calls of which every fan-out has at least so many."""
EVERY = ("api", "worker-1", "worker-2")
"""The processes that run normally."""


def random_moment(trial: Trial) -> tuple[str, Callable[[str], bool], Place]:
    """Return a server, the condition of one request to it, and whether to wait before it or after it."""
    server, left = trial.random.choice(MOMENTS)
    side: Place = trial.random.choice(("request", "answer"))

    def is_the_one(request: str) -> bool:
        nonlocal left
        left -= server == "fake_github" or request.upper().endswith("COMMIT")
        return left == 0

    return server, is_the_one, side


@fault("Kills: a worker, at any moment of a fan-out", within=BOUND, load=False)
def worker(trial: Trial) -> None:
    traps = trap_reconcilers(trial.stack, *random_moment(trial))
    trial.client.freeze()
    reconciler = first_caught(traps)
    kill_and_restart(trial, reconciler, traps[reconciler])


@fault("Kills: the only worker, which a supervisor starts again", within=RESTART_BOUND, load=False)
def only_worker(trial: Trial) -> None:
    stack = trial.stack
    reconciler, other = stack.reconcilers
    other.kill()
    wait_for_workers(stack)
    trap = stack.wire(reconciler, "fake_github").trap("createCheckRun")
    trial.client.freeze()
    trap.wait(30)
    kill_and_restart(trial, reconciler, trap)


@fault("Kills: a worker, while it sweeps because workers cannot be woken", within=RESTART_BOUND, load=False)
def sweeping_worker(trial: Trial) -> None:
    stack = trial.stack
    stack.valkey.stop()
    working = stack.processes["worker-1"]
    for process in stack.processes.values():
        if process not in {stack.api, working}:
            process.kill()
    trap = stack.wire(working, "fake_github").trap("createCheckRun")
    trial.client.freeze()
    trap.wait(30)
    kill_and_restart(trial, working, trap)


@fault("Kills: the connection of a worker's lock, before a write: it stops, and begins again", within=BOUND, load=False)
def lock_connection(trial: Trial) -> None:
    stack = trial.stack
    reconciler, trap = catch_at_a_freeze(trial, "answer")
    late = trial.client.evaluation()
    rows = stack.sql(
        "SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objid IN "
        "(SELECT CAST(lease_holder AS oid) FROM checks WHERE organization_id = %s)",
        stack.acme.id,
    )
    trial.injected()
    recorded = (
        "SELECT repository_id, check_name, head_sha, evaluation FROM head_checks "
        "WHERE evaluation <= %s AND organization_id = %s"
    )
    before = set(stack.sql(recorded, late, stack.acme.id))
    refused = stack.wire(reconciler, "postgres").trap("INSERT INTO read_backs", "answer")
    trap.release()
    refused.wait(10)
    trial.require(rows, "the process that has the leases holds its lock")
    late_records = set(stack.sql(recorded, late, stack.acme.id)) - before  # its successor replaces some of the others
    trial.require(not late_records, "what was written after that is not recorded")
    refused.release()


@fault("Kills: the API, while webhooks are sent", within=BOUND, load=False, roles=EVERY[:1])
@fault("Kills: the API and what writes checks, while webhooks are sent", within=BOUND, load=False, roles=EVERY)
@fault(
    "Kills: Redis, a worker and the API, while webhooks are sent",
    within=BOUND,
    load=False,
    needs_redis=True,
    roles=EVERY[:2],
    redis=True,
)
@fault("Kills: everything, while webhooks are sent", within=BOUND, load=False, roles=EVERY, redis=True)
def while_webhooks_are_sent(trial: Trial, roles: Sequence[str], *, redis: bool = False) -> None:
    """Kill processes while people push, and start them again; the recovery counts from when the API answers.

    What was sent meanwhile is found in GitHub's log of webhooks, without a full resync.
    """
    stack, before = trial.stack, trial.stack.full_resyncs()
    if trial.random.random() < 0.5:
        trial.client.freeze()
        wait_until(lambda: is_settled(stack), "the freeze", 30)
    if redis and stack.redis:
        stack.valkey.stop()
    for role in trial.random.sample(roles, len(roles)):
        trial.people.push_somewhere(trial.random)
        stack.processes[role].kill()
        time.sleep(trial.random.uniform(0, 1))
    for _ in range(trial.random.randint(1, 8)):
        trial.people.push_somewhere(trial.random)
        time.sleep(trial.random.uniform(0, 0.4))
    stack.start_redis()
    stack.run_all()
    trial.injected()
    wait_until(lambda: is_settled(stack), "what was sent while the API was away", BOUND)
    trial.require(stack.full_resyncs() == before, "no full resync was needed")


@fault("Kills: the process that reads GitHub's log of webhooks", within=BOUND, load=False)
def log_reader(trial: Trial) -> None:
    stack = trial.stack
    stack.api.kill()
    for _ in range(4):
        trial.people.push_somewhere(trial.random)
    place: Place = trial.random.choice(("request", "answer"))
    traps = {
        each: stack.wire(each, "fake_github").trap("/app/hook/deliveries", place)
        for name, each in stack.processes.items()
        if name in stack.usual - {"api"}
    }
    stack.api.start()
    reader = first_caught(traps, 30)
    stack.wait_for_api()
    kill_and_restart(trial, reader, traps[reader])
