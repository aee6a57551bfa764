"""GitHub's log of webhooks: what nobody took is found in it, and what it does not have is read from GitHub."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import orjson

from tests.faults.suite.catalogue.steps import is_settled
from tests.faults.suite.processes import wait_until
from tests.faults.suite.stack import Stack
from tests.faults.suite.trial import Trial, fault
from tools.fake_github.webhooks.sender import PENDING, Delivery

TAKEN = 15.0
"""Seconds from when the API answers again until everything is right."""
SLOW = 1.5
"""Seconds that each call of a slow log takes."""
FOREIGN = 60
"""Deliveries of installations that are not ours: fewer than one reading takes."""
LOG = "GET /app/hook/deliveries"


@contextmanager
def without_the_api(trial: Trial) -> Iterator[None]:
    """Freeze, and have people push while no API process runs and the log is not read; then both work again."""
    stack = trial.stack
    trial.client.freeze()
    wait_until(lambda: is_settled(stack), "the freeze", 30)
    unread = stack.github.faults.add("error", LOG, status=503)
    stack.api.kill()
    for _ in range(4):
        trial.people.push_somewhere(trial.random)
    trial.people.close_and_reopen(*trial.random.choice(trial.people.open_pulls()))
    stack.github.sender.drain()
    yield
    stack.github.faults.clear(unread.id)
    stack.api.start()
    stack.wait_for_api()
    trial.injected()


def settle(trial: Trial, seconds: float) -> None:
    """Wait until everything is right while the fault lasts."""
    wait_until(lambda: is_settled(trial.stack), "what was sent while the API was away", seconds)


@fault("Webhook log: no API runs while people push; what was sent is taken from it", within=TAKEN, load=False)
def whole(trial: Trial) -> None:
    before = trial.stack.full_resyncs()
    with without_the_api(trial):
        pass
    settle(trial, TAKEN)
    trial.require(trial.stack.full_resyncs() == before, "no full resync was needed")


@fault("Webhook log: each of its answers is slow", within=60, load=False, quick=False)
def slow(trial: Trial) -> None:
    before = trial.stack.full_resyncs()
    with without_the_api(trial):
        trial.stack.github.faults.add("slow_body", LOG, seconds=SLOW)
    settle(trial, 60)
    trial.require(trial.stack.full_resyncs() == before, "no full resync was needed")


@fault("Webhook log: it fails, hangs and breaks off, and works again", within=60, load=False, quick=False)
def failing(trial: Trial) -> None:
    faults = trial.stack.github.faults
    with without_the_api(trial):
        faults.add("error", LOG, status=502, count=2)
        faults.add("disconnect", LOG, count=2)
        faults.add("timeout", LOG, seconds=12, count=1)
    settle(trial, 60)


@fault("Webhook log: it is empty; one full resync", within=TAKEN, load=False, keep=0)
@fault("Webhook log: it was cut off; one full resync", within=TAKEN, load=False, keep=2)
def incomplete(trial: Trial, keep: int) -> None:
    """Have GitHub keep only the newest deliveries, while no API runs; require one full resync."""
    stack = trial.stack
    wait_until(lambda: _has_read_an_entry(stack), "an entry that was read: only then one can be missing", 30)
    stack.full_resyncs()  # one that was requested before is over
    stack.sql("UPDATE periodic_tasks SET done_at = done_at - interval '2 minutes' WHERE name = 'full_resync'")
    before = stack.full_resyncs()
    with without_the_api(trial):
        deliveries = stack.github.sender.deliveries
        for lost in list(deliveries)[: len(deliveries) - keep]:
            del deliveries[lost]
    settle(trial, TAKEN)
    requested = stack.full_resyncs()
    trial.require(requested != before, "one full resync was requested")
    time.sleep(6)  # the log is read again
    trial.require(stack.full_resyncs() == requested, "and not another one")


def _has_read_an_entry(stack: Stack) -> bool:
    """Have the log read; return whether its newest entry is known."""
    stack.read_webhook_log_now()
    return bool(stack.sql("SELECT 1 FROM webhook_log WHERE last_id IS NOT NULL"))


@fault("Webhook log: it has deliveries to other installations; they change nothing", within=30, load=False)
def foreign(trial: Trial) -> None:
    stack = trial.stack
    before = stack.full_resyncs()
    with without_the_api(trial):
        guids = {_add_foreign(trial, number) for number in range(FOREIGN)}
    settle(trial, 30)
    stored = "SELECT delivery_id FROM webhook_deliveries WHERE processed_at IS NOT NULL AND delivery_id = ANY(%s)"
    wait_until(lambda: len(stack.sql(stored, sorted(guids))) == FOREIGN, "the foreign deliveries", 15)
    trial.require(stack.full_resyncs() == before, "no full resync was needed")


def _add_foreign(trial: Trial, number: int) -> str:
    """Add a delivery that failed to the log, and return its GUID."""
    world = trial.stack.github.world
    payload = {"installation": {"id": 77}, "repository": {"id": 10**9 + number}, "ref": "refs/heads/main"}
    with world.lock:
        made = Delivery(
            world.next_id(), str(uuid.uuid4()), "push", None, orjson.dumps(payload), 77, 10**9 + number, world.now()
        )
        made.status_code, made.status = 503, "Service Unavailable"
        trial.stack.github.sender.deliveries[made.id] = made
    return made.guid


@fault("Webhook log: something in between has answered in our place", within=30, load=False)
def answered_by_another(trial: Trial) -> None:
    stack = trial.stack
    silence = stack.github.faults.add("webhook_drop", "webhook ")
    for _ in range(4):
        trial.people.push_somewhere(trial.random)
    stack.github.faults.clear(silence.id)
    for each in list(stack.github.sender.deliveries.values()):
        if each.status == PENDING:
            each.status_code, each.delivered_at, each.status = 200, stack.github.world.now(), "OK"
    trial.injected()
    settle(trial, 30)
