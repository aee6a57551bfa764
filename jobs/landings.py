"""Wake-up: look into the commits that landed on frozen branches."""

from functools import partial

from jobs.context import given, take_turns
from services.bypass_detection.detection import examine_landings


def run() -> None:
    """Go on until nothing waits."""
    context = given()
    take_turns(context, "landings", partial(examine_landings, context.units, context.github))
