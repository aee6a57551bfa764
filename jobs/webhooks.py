"""Wake-up: read the deliveries that wait."""

from functools import partial

from jobs.context import given, take_turns
from services.webhooks.deliveries import process


def run() -> None:
    """Read deliveries until none waits."""
    context = given()
    take_turns(context, "webhooks", partial(process, context.units, context.github))
