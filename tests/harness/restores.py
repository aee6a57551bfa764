"""A database that counts as restored, and the operator who confirms it."""

from services.core.unit_of_work import SYSTEM_CALLER
from services.restores import restores
from tests.harness.github_harness import Harness

GRACE = "grace@example.com"


def declare_restored(harness: Harness) -> None:
    """Say that the database was restored."""
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        restores.declare_restored(uow)


def show_and_confirm(harness: Harness) -> None:
    """Look at what would be released, as an operator has to, and confirm it."""
    with harness.jobs.open(SYSTEM_CALLER) as uow:
        restores.record_shown(uow)
    restores.confirm_restore(harness.jobs, by=GRACE)
