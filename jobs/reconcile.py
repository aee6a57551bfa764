"""Wake-up: bring due branches to what the database says."""

from jobs.context import LONGEST_TURN, given, take_turns


def run() -> None:
    """Run passes until nothing is due."""
    context = given()
    take_turns(context, "reconcile", context.reconciler.run_pass, longest=LONGEST_TURN)
