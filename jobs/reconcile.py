"""Wake-up: bring due branches to what the database says."""

from jobs.context import TIME_SLICE, get_context, run_for


def run() -> None:
    """Run passes until nothing is due."""
    context = get_context()
    run_for(context, "reconcile", context.reconciler.run_pass, longest=TIME_SLICE)
