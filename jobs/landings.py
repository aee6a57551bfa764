"""Wake-up: look into the commits that landed on frozen branches."""

from functools import partial

from jobs.context import get_context, run_for
from services.bypass_detection.detection import detect_bypasses


def run() -> None:
    """Go on until nothing waits."""
    context = get_context()
    run_for(context, "landings", partial(detect_bypasses, context.uow_factory, context.github))
