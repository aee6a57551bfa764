"""Wake-up: read the deliveries that wait."""

from functools import partial

from jobs.context import get_context, run_for
from services.webhooks.deliveries import process


def run() -> None:
    """Read deliveries until none waits."""
    context = get_context()
    run_for(context, "webhooks", partial(process, context.uow_factory, context.github))
