"""The sweeper: a loop beside RQ that needs PostgreSQL alone.

It records what time has done, wakes workers for whatever waits, and runs the work itself when Redis cannot be
reached. RQ makes the service fast; this loop makes it right.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from threading import Event

import sqlalchemy.exc

from jobs import reconcile, sync, webhooks
from jobs.context import Context
from services.chores import end_freezes, full_pass, give_receipts, tidy, work_waiting

logger = logging.getLogger(__name__)

JOBS: dict[str, Callable[[], None]] = {"reconcile": reconcile.run, "sync": sync.run, "webhooks": webhooks.run}


@dataclass(frozen=True, slots=True)
class Sweeper:
    """One loop; any number of them may run."""

    context: Context
    reachable: Callable[[], bool]
    """Tells whether workers can be woken."""
    full_pass_every: timedelta

    def sweep(self) -> None:
        """Do every chore that is due."""
        units = self.context.units
        end_freezes(units)
        give_receipts(units)
        full_pass(units, self.full_pass_every)
        tidy(units)
        waiting = work_waiting(units)
        if not waiting:
            return
        if self.reachable():
            self.context.wakeups.send(waiting)
            return
        for name, run in JOBS.items():
            if name in waiting:
                run()

    def run(self, stop: Event, every: float) -> None:
        """Sweep every so many seconds until told to stop; a database that is away is waited for."""
        while not stop.is_set():
            try:
                self.sweep()
            except sqlalchemy.exc.OperationalError as error:
                logger.warning("the sweep was cut short, the database is away: %s", error.orig)
            stop.wait(every)
