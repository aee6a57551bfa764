"""Trying a fault: inject it under load, mend what it left, wait until everything is at rest, judge."""

import random
import time
import traceback
from contextlib import nullcontext
from dataclasses import dataclass, field

from tests.faults.suite.client import Client
from tests.faults.suite.judge import forbidden, is_busy, lost, unfinished_work, wrong_heads
from tests.faults.suite.load import Load
from tests.faults.suite.processes import wait_until
from tests.faults.suite.stack import Stack
from tests.faults.suite.trial import Fault, Trial
from tools.fake_github.webhooks.sender import PENDING

POLL = 0.04
STILL = 2.5
"""Seconds without any work due or planned after which a wrong head counts as stale at rest."""
FIRST_REST = 60.0
"""Seconds within which a stack comes to rest that has just started."""


@dataclass(slots=True)
class Outcome:
    """The result of one try."""

    fault: Fault
    seconds: float | None = None
    """From the fault to everything being right; None: not within its bound."""
    lost: list[str] = field(default_factory=list)
    """What was acknowledged and is not there, or was done twice."""
    stale: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    """The heads that were wrong at rest: (shown, expected)."""
    broken: list[str] = field(default_factory=list)
    """Promises that were not kept, and errors of the fault's function."""
    unfinished: str = ""
    """What was under way when the bound passed."""

    @property
    def recovered(self) -> bool:
        """Whether every promise was kept."""
        return self.seconds is not None and not (self.lost or self.stale or self.broken)


def rest(stack: Stack, patience: float = FIRST_REST) -> None:
    """Wait until everything is right and there is no work left."""
    wait_until(
        lambda: not is_busy(stack) and not wrong_heads(stack),
        "coming to rest",
        patience,
        POLL,
        lambda: unfinished_work(stack),
    )


def attempt(stack: Stack, fault: Fault, seed: int) -> Outcome:
    """Try a fault once, on a stack at rest, and leave it at rest. Raise if it does not come to rest."""
    stack.disturbed_by = fault.name
    trial = Trial(stack, random.Random(seed))
    outcome = Outcome(fault)
    stack.github.calls.reset()
    stack.github.limits.reset()  # a superseded head keeps its check while a budget is short
    with Load(stack, trial.ledger, seed, of=stack.beta) if fault.load else nullcontext() as load:
        try:
            trial.injected_at = time.monotonic()
            fault.inject(trial)
        except Exception as error:  # noqa: BLE001 - the table shows what went wrong
            where = traceback.extract_tb(error.__traceback__)[-1]
            trial.broken.append(f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})")
        stack.mend()
    stack.read_webhook_log_now()
    resync_if_webhooks_left_no_trace(stack)
    outcome.broken = trial.broken
    if load is not None:
        trial.broken += load.failures
    _settle(stack, trial, outcome)
    outcome.lost = lost(stack, trial.ledger)
    outcome.broken += forbidden(stack, trial.ledger)
    _clean_up(stack, trial)
    stack.disturbed_by = ""
    return outcome


def resync_if_webhooks_left_no_trace(stack: Stack) -> None:
    """Request a full resync if GitHub has lost a webhook itself; its log has the others that did not arrive."""
    stack.github.sender.drain(10)
    deliveries = stack.github.sender.deliveries
    untried = [delivery.id for delivery in list(deliveries.values()) if delivery.status == PENDING]
    if untried:
        stack.request_full_resync()
    for each in untried:
        del deliveries[each]


def _settle(stack: Stack, trial: Trial, outcome: Outcome) -> None:
    """Wait until every head is right, or nothing moves any more, or the bound is passed."""
    quiet_since: float | None = None
    while (elapsed := time.monotonic() - trial.injected_at) <= outcome.fault.within:
        busy = is_busy(stack)
        wrong = {} if busy else wrong_heads(stack)  # every head is compared: not while it does not matter yet
        if not wrong and not busy:
            outcome.seconds = elapsed
            return
        nothing_planned = not busy and not stack.sql("SELECT 1 FROM checks WHERE due_at IS NOT NULL LIMIT 1")
        quiet_since = (quiet_since or time.monotonic()) if nothing_planned else None
        if quiet_since is not None and time.monotonic() - quiet_since > STILL:
            outcome.stale = wrong
            return
        time.sleep(POLL)
    outcome.stale = wrong_heads(stack)
    outcome.unfinished = unfinished_work(stack)


def _clean_up(stack: Stack, trial: Trial) -> None:
    """End every freeze, and come to rest for the next fault."""
    running = stack.sql("SELECT id, organization_id FROM freezes WHERE ended_at IS NULL")
    for freeze_id, owner in running:
        organization = stack.acme if owner == stack.acme.id else stack.beta
        Client(stack, organization, trial.ledger).insist("POST", f"/v1/freezes/{freeze_id}/lift", {})
    try:
        rest(stack, 30)
    except AssertionError:
        stack.request_full_resync()
        stack.skip(120)
        rest(stack, 90)
