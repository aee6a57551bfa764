"""Wake-up: remove the rules that we wrote for organisations which are deleted."""

from functools import partial

from jobs import background_thread
from jobs.context import given
from services.offboarding.withdrawal import withdraw_due


def run() -> None:
    """Begin to remove, or go on; returns at once."""
    context = given()
    context.begun("withdraw")
    background_thread.go_on("withdraw", partial(withdraw_due, context.units, context.github))
