"""The sweeper: a loop beside RQ that needs PostgreSQL alone.

It records what time has done, wakes workers for whatever waits, and runs the work itself when Redis cannot be
reached or no worker comes. RQ makes the service fast; this loop makes it right.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from threading import Event

import sqlalchemy.exc

from jobs import landings, mail, reconcile, setup, sync, verify, webhooks, withdraw
from jobs.context import Context
from services.chores import end_freezes, full_pass, give_receipts, rotate_keys, tidy, work_waiting
from services.organization_deletion import end_what_came_late
from services.organization_purge import purge_deleted

logger = logging.getLogger(__name__)

JOBS: dict[str, Callable[[], None]] = {
    "webhooks": webhooks.run,
    "reconcile": reconcile.run,
    "setup": setup.run,
    "sync": sync.run,
    "verify": verify.run,
    "landings": landings.run,
    "mail": mail.run,
    "withdraw": withdraw.run,
}
"""Every wake-up, in the order in which the sweeper does them itself when no worker can be woken."""


@dataclass(frozen=True, slots=True)
class Sweeper:
    """One loop; any number of them may run."""

    context: Context
    workers_come: Callable[[], bool]
    """Tells whether workers can be woken, and take what they are woken for."""
    full_pass_every: timedelta

    def sweep(self) -> None:
        """Do every chore that is due; one that fails keeps no other from being done."""
        units = self.context.units
        for chore in (
            partial(end_freezes, units),
            partial(give_receipts, units),
            partial(full_pass, units, self.full_pass_every),
            partial(tidy, units),
            partial(end_what_came_late, units),
            partial(purge_deleted, units),
            partial(rotate_keys, units),
            self._see_to_what_waits,
        ):
            _attempt(chore)

    def _see_to_what_waits(self) -> None:
        waiting = work_waiting(self.context.units)
        if waiting and self.workers_come():
            self.context.wakeups.send(waiting)
            return
        for name, run in JOBS.items():
            if name in waiting:
                _attempt(run)

    def run(self, stop: Event, every: float) -> None:
        """Sweep every so many seconds until told to stop."""
        while not stop.is_set():
            self.sweep()
            stop.wait(every)


def _attempt(chore: Callable[[], object]) -> None:
    try:
        chore()
    except sqlalchemy.exc.OperationalError as error:
        logger.warning("a chore was cut short, the database is away: %s", error.orig)
    except Exception:  # the loop that finds what others lost must itself outlive every fault; it is logged whole
        logger.exception("a chore failed and is tried again")
