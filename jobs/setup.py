"""Wake-up: write the rulesets that were asked for."""

from functools import partial

from jobs.context import given, take_turns
from services.enforcement.applying import apply_due


def run() -> None:
    """Go on until nothing waits."""
    context = given()
    take_turns(context, "setup", partial(apply_due, context.units, context.github))
