"""Wake-up: remove the rules that we wrote for organisations which are deleted."""

from functools import partial

from jobs import background_thread
from jobs.context import get_context
from services.offboarding.withdrawal import withdraw_due


def run() -> None:
    """Begin to remove, or go on; returns at once."""
    context = get_context()
    context.begun("withdraw")
    background_thread.run_in_background("withdraw", partial(withdraw_due, context.uow_factory, context.github))
