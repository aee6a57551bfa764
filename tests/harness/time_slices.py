"""What the product stops after some wall-clock seconds, tests have done at once on any machine, however busy."""

from app import database, database_connections
from app.metrics import facts
from services.audit import hash_chain
from services.maintenance import tasks
from services.offboarding import purge
from services.reconcile import reconciler

LONG = 600.0
PATIENT = 60
"""Seconds until something counts as unreachable."""


def lengthen_time_slices() -> None:
    """Give each task and each answer all the time it takes; a test of a limit sets its own.

    It is called when the tests have been collected: what they import by name is the product's.
    """
    hash_chain.MAX_SECONDS = purge.MAX_SECONDS = LONG
    reconciler.TIME_SLICE = tasks.MAX_COVERING_SECONDS = LONG
    reconciler.MAX_EVALUATION_AGE = LONG
    facts.MAX_READ_SECONDS = facts.MAX_LONG_READ_SECONDS = LONG
    database_connections.CONNECT_TIMEOUT_SECONDS = PATIENT
    database.READINESS_TIMEOUT_SECONDS = PATIENT
