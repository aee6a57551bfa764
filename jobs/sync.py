"""Wake-up: compare the mirror of repositories with the installations that asked for it."""

from functools import partial

from jobs.context import get_context, run_for
from services.repository_sync.sync import sync_pending


def run() -> None:
    """Compare until no comparison waits."""
    context = get_context()
    run_for(context, "sync", partial(sync_pending, context.uow_factory, context.github))
