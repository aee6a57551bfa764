"""Passes of workers that go on step by step, so that something happens in between."""

from services.core.unit_of_work import SYSTEM_CALLER
from services.reconcile.claims import claim
from services.reconcile.doubts import doubt
from services.reconcile.judging import Decision, decide
from services.reconcile.passes import Pass
from tests.jobs.conftest import Town


def claimed_pass(town: Town) -> Pass:
    """Return a pass that has leased what is due, and has done nothing yet."""
    with town.jobs.open(SYSTEM_CALLER) as uow:
        claimed = claim(uow)
    assert claimed is not None
    begun = Pass(town.reconciler, claimed, town.github.client(claimed.installation_id))
    begun.open = {branch.id: branch for branch in claimed.branches}
    return begun


def judged(town: Town) -> tuple[Pass, list[Decision]]:
    """Return the pass of a worker that has judged, and said that it is about to send."""
    begun = claimed_pass(town)
    planned = begun._plan(begun._settle(begun._look()))
    with town.jobs.open(SYSTEM_CALLER) as uow:
        decisions = decide(uow, begun.claim.token, [decision.head for decision in planned])
        doubt(uow, [decision.head for decision in decisions if decision.conclusion == "success"])
    return begun, decisions
