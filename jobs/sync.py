"""Wake-up: compare the mirror of repositories with the installations that asked for it."""

from functools import partial

from jobs.context import given, take_turns
from services.repository_sync.sync import sync_pending


def run() -> None:
    """Compare until no comparison waits."""
    context = given()
    take_turns(context, "sync", partial(sync_pending, context.units, context.github))
