"""What the product stops after some wall-clock seconds, to go on later, tests have done at once on any machine."""

from services.audit import hash_chain
from services.maintenance import tasks
from services.offboarding import purge
from services.reconcile import reconciler

LONG = 600.0
MAX_EVALUATION_AGE = reconciler.MAX_EVALUATION_AGE
"""As the product has it."""


def lengthen_time_slices() -> None:
    """Give each task all the time it takes; a test of a slice sets its own."""
    hash_chain.MAX_SECONDS = purge.MAX_SECONDS = LONG
    reconciler.MAX_EVALUATION_AGE = LONG
    reconciler.TIME_SLICE = tasks.MAX_COVERING_SECONDS = LONG
