"""Passes that are run step by step, so that a test can act in between."""

from services.core.unit_of_work import SYSTEM_CALLER
from services.reconcile.check_records import announce
from services.reconcile.evaluation import CheckUpdate, evaluate
from services.reconcile.heads import read_paths_again
from services.reconcile.leases import Turn, acquire
from services.reconcile.reconciler import Pass
from tests.harness.github_harness import Harness


def leased_pass(harness: Harness) -> Pass:
    """Return a pass that has leased what is due, and has done nothing yet."""
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        batch = acquire(uow, Turn())
    assert batch is not None
    assert batch.lease is not None
    return Pass(harness.reconciler, batch, batch.lease, harness.github.client(batch.installation_id))


def evaluated_pass(harness: Harness) -> tuple[Pass, list[CheckUpdate]]:
    """Return the pass of a worker that has evaluated its heads, and announced what it will write."""
    started = leased_pass(harness)
    planned = started._plan(started.reading.mirror(started.reading.fetch()))
    return started, intend(started, planned)


def intend(started: Pass, planned: list[CheckUpdate]) -> list[CheckUpdate]:
    """Evaluate a batch again, and save the intent to write what still differs, as a pass does before it sends."""
    if not planned:
        return []
    with started.state.leased(started.state.pending) as leased:
        heads = read_paths_again(leased.uow, [update.head for update in planned])
        updates = evaluate(leased, heads, started.texts)
        differing = [update for update in updates if update.differs]
        announce(leased.uow, [update.head for update in differing if update.conclusion == "success"])
    return differing
