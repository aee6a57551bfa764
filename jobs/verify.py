"""Wake-up: probe the branches that are due."""

from functools import partial

from jobs.context import get_context, run_for
from services.enforcement.probing import probe_due


def run() -> None:
    """Go on until nothing waits."""
    context = get_context()
    run_for(context, "verify", partial(probe_due, context.uow_factory, context.github))
