"""The sweeper: a loop beside RQ that needs PostgreSQL alone.

It records what time has done, wakes the jobs that have work, and runs them itself when Redis cannot be reached or no
worker comes. RQ makes the service fast; this loop makes it right. Time is kept and the audit is sealed on threads of
their own: a window begins when it is due, also while a long fan-out runs here.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from threading import Event, Thread

import sqlalchemy.exc

from jobs.context import Context
from jobs.registry import JOBS, jobs_with_work
from services.audit.hash_chain import seal_entries
from services.maintenance.tasks import (
    end_freezes,
    full_resync,
    purge_expired,
    repair_completions,
    rotate_keys,
    seconds_to_next,
)
from services.offboarding.deletion import end_leftovers
from services.offboarding.purge import purge_deleted
from services.pull_request_exceptions.expiry import end_exceptions
from services.schedules.missed_windows import record_missed, resolve_outdated_alerts
from services.schedules.occurrence_start import cover_remaining, start_windows
from services.schedules.overlap_alerts import find_overlaps
from services.schedules.plans import extend_plans
from services.schedules.verification import compare_windows, verify_windows

logger = logging.getLogger(__name__)

MIN_PAUSE = 0.05
"""Seconds between two looks at the clock, however much is due."""
SEAL_INTERVAL = 1.0
"""Seconds between two looks for entries to seal, which are to have their place within five."""


@dataclass(frozen=True, slots=True)
class Sweeper:
    """One loop; any number of them may run."""

    context: Context
    workers_available: Callable[[], bool]
    """Return whether workers can be woken, and take the wake-ups that they are sent."""
    full_pass_every: timedelta

    def sweep(self) -> None:
        """Run every maintenance task that is due; one that fails does not stop the others."""
        self.keep_time()
        self.seal()
        self.look_after()

    def keep_time(self) -> bool:
        """Do what has to be done on time; return whether there was anything.

        Windows begin before freezes end: where one follows the other, what both cover stays blocked.
        """
        uow_factory = self.context.uow_factory
        tasks = (start_windows, end_freezes, end_exceptions, cover_remaining, record_missed)
        done = [_attempt(partial(task, uow_factory)) for task in tasks]
        return any(done)

    def seal(self) -> None:
        """Give audit entries that have been committed their place."""
        _attempt(partial(seal_entries, self.context.uow_factory))

    def look_after(self) -> None:
        """Run the maintenance tasks, and run or wake the jobs that have work."""
        uow_factory = self.context.uow_factory
        for task in (
            partial(verify_windows, uow_factory),
            partial(compare_windows, uow_factory),
            partial(resolve_outdated_alerts, uow_factory),
            partial(extend_plans, uow_factory),
            partial(find_overlaps, uow_factory),
            partial(repair_completions, uow_factory),
            partial(full_resync, uow_factory, self.full_pass_every),
            partial(purge_expired, uow_factory),
            partial(end_leftovers, uow_factory),
            partial(purge_deleted, uow_factory),
            partial(rotate_keys, uow_factory),
            self._run_or_wake_jobs,
        ):
            _attempt(task)

    def _run_or_wake_jobs(self) -> None:
        names = jobs_with_work(self.context.uow_factory)
        if names and self.workers_available():
            self.context.wakeups.send(set(names))
            return
        for name in names:
            _attempt(JOBS[name].run)

    def run(self, stop: Event, every: float) -> None:
        """Sweep every so many seconds, and whenever time asks for something, until told to stop."""
        look = Event()
        beside = [
            Thread(target=self._keep_time_until, args=(stop, look, every), name="time"),
            Thread(target=self._seal_until, args=(stop,), name="seals"),
        ]
        for thread in beside:
            thread.start()
        while not stop.is_set():
            self.look_after()
            look.wait(every)
            look.clear()
        for thread in beside:
            thread.join()

    def _keep_time_until(self, stop: Event, look: Event, every: float) -> None:
        while not stop.is_set():
            if self.keep_time():
                look.set()
            stop.wait(self.pause(every))
        look.set()

    def _seal_until(self, stop: Event) -> None:
        while not stop.is_set():
            self.seal()
            stop.wait(SEAL_INTERVAL)

    def pause(self, every: float) -> float:
        """Return how many seconds to wait before time is looked at again: until it does something, `every` at most."""
        left: list[float | None] = []
        _attempt(lambda: left.append(seconds_to_next(self.context.uow_factory)))
        return max(MIN_PAUSE, min([every, *(seconds for seconds in left if seconds is not None)]))


def _attempt(task: Callable[[], object]) -> bool:
    """Run a task and return whether it did something; one that fails is logged, and tried again in the next sweep."""
    try:
        return bool(task())
    except sqlalchemy.exc.OperationalError as error:
        logger.warning("a task was interrupted, the database is not available: %s", error.orig)
    except Exception:  # the loop that finds what others lost must itself outlive every fault; it is logged whole
        logger.exception("a task failed and is tried again")
    return False
