"""Wake-up: remove the rules that we wrote for organisations which are deleted."""

from functools import partial

from jobs import aside
from jobs.context import given
from services.organization_withdrawal import withdraw_due


def run() -> None:
    """Begin to remove, or go on; returns at once."""
    context = given()
    context.begun("withdraw")
    aside.go_on("withdraw", partial(withdraw_due, context.units, context.github))
