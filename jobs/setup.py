"""Wake-up: write the rulesets that were asked for."""

from functools import partial

from jobs.context import get_context, run_for
from services.enforcement.applying import apply_due


def run() -> None:
    """Go on until nothing waits."""
    context = get_context()
    run_for(context, "setup", partial(apply_due, context.uow_factory, context.github))
