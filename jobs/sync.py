"""Wake-up: compare lists of repositories with the code host's."""

from functools import partial

from jobs.context import given, take_turns
from services.repository_sync import sync_pending


def run() -> None:
    """Compare until nobody asks for it."""
    context = given()
    take_turns(context, "sync", partial(sync_pending, context.units, context.github))
