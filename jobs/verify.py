"""Wake-up: probe the branches that are due."""

from functools import partial

from jobs.context import given, take_turns
from services.enforcement.probing import probe_due


def run() -> None:
    """Go on until nothing waits."""
    context = given()
    take_turns(context, "verify", partial(probe_due, context.units, context.github))
