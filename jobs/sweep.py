"""The sweeper: a loop that needs PostgreSQL only, and finds work whose wake-up was lost.

It runs the tasks that are due by time, wakes the jobs that have work, and runs them itself if Redis cannot be reached
or no worker runs. RQ only makes the service fast; this loop makes it correct. Timed tasks and the sealing of the audit
log have threads of their own, so a window starts when it is due even while a long fan-out runs here.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from math import ceil
from threading import Event, Thread

import sqlalchemy.exc

from jobs.context import Context
from jobs.loop_watch import MAX_SECONDS
from jobs.registry import JOBS, jobs_with_work
from services.audit.hash_chain import seal_entries
from services.billing.trials import announce_trial_ends
from services.maintenance.retention import purge_expired
from services.maintenance.tasks import (
    cover_remaining,
    end_freezes,
    full_resync,
    repair_completions,
    review_enforcement,
    rotate_keys,
    seconds_to_next,
)
from services.notifications.reminders import announce_windows
from services.notifications.reminders import seconds_to_next as seconds_to_next_announcement
from services.offboarding.deletion import end_leftovers
from services.offboarding.purge import purge_deleted
from services.pull_request_exceptions.expiry import end_exceptions
from services.restores.restores import notice_restore
from services.schedules.missed_windows import record_missed, resolve_outdated_alerts
from services.schedules.occurrence_start import start_windows
from services.schedules.overlap_alerts import find_overlaps
from services.schedules.plans import extend_plans
from services.schedules.verification import compare_windows, verify_windows

logger = logging.getLogger(__name__)

MIN_PAUSE = 0.05
"""Shortest time in seconds between two runs of the timed tasks."""
SEAL_INTERVAL = 1.0
"""Seconds between two runs of the sealer; an entry must be sealed within five seconds."""


@dataclass(frozen=True, slots=True)
class Sweeper:
    """The loop; any number of processes may run it."""

    context: Context
    workers_available: Callable[[], bool]
    """True if Redis can be reached and workers accept wake-ups."""
    full_resync_interval: timedelta
    synchronous_standbys: bool = False
    """True if a fail-over of PostgreSQL loses no commit."""

    def sweep(self) -> None:
        """Run everything that is due once; a task that fails does not stop the others."""
        self.run_timed_tasks()
        self.seal()
        self.run_maintenance()

    def run_timed_tasks(self) -> bool:
        """Start windows, end freezes and exceptions, and announce windows that are due; True if there were any.

        Windows start before freezes end, so that a branch stays blocked when one follows the other.
        """
        uow_factory = self.context.uow_factory
        tasks = (start_windows, end_freezes, end_exceptions, cover_remaining, record_missed, announce_windows)
        done = [self._attempt(partial(task, uow_factory)) for task in tasks]
        return any(done)

    def seal(self) -> None:
        """Seal committed audit entries."""
        self._attempt(partial(seal_entries, self.context.uow_factory))

    def run_maintenance(self) -> None:
        """Run the maintenance tasks, and run or wake the jobs that have work."""
        uow_factory = self.context.uow_factory
        for task in (
            partial(notice_restore, uow_factory, synchronous_standbys=self.synchronous_standbys),
            partial(verify_windows, uow_factory),
            partial(compare_windows, uow_factory),
            partial(resolve_outdated_alerts, uow_factory),
            partial(extend_plans, uow_factory),
            partial(find_overlaps, uow_factory),
            partial(repair_completions, uow_factory),
            partial(review_enforcement, uow_factory),
            partial(full_resync, uow_factory, self.full_resync_interval),
            partial(purge_expired, uow_factory),
            partial(end_leftovers, uow_factory),
            partial(purge_deleted, uow_factory),
            partial(rotate_keys, uow_factory),
            partial(announce_trial_ends, uow_factory),
            self._run_or_wake_jobs,
        ):
            self._attempt(task)
        self.context.observer.swept()

    def _run_or_wake_jobs(self) -> None:
        names = jobs_with_work(self.context.uow_factory)
        for_workers = {name for name in names if not JOBS[name].by_sweeper}
        if for_workers and self.workers_available():
            self.context.wakeups.send(for_workers)
            names = [name for name in names if name not in for_workers]
        for name in names:
            self._attempt(JOBS[name].run)

    def run(self, stop: Event, interval: float) -> None:
        """Sweep every `interval` seconds, and after each timed task that did something, until `stop` is set."""
        sweep_now = Event()
        threads = [
            Thread(target=self._run_timed_tasks_until, args=(stop, sweep_now, interval), name="time"),
            Thread(target=self._seal_until, args=(stop,), name="seals"),
        ]
        for thread in threads:
            thread.start()
        with self.context.watch.working():
            while not stop.is_set():
                self.run_maintenance()
                self._wait(sweep_now, interval)
                sweep_now.clear()
        for thread in threads:
            thread.join()

    def _run_timed_tasks_until(self, stop: Event, sweep_now: Event, interval: float) -> None:
        with self.context.watch.working():
            while not stop.is_set():
                if self.run_timed_tasks():
                    sweep_now.set()
                self._wait(stop, self.pause(interval))
        sweep_now.set()

    def _seal_until(self, stop: Event) -> None:
        with self.context.watch.working():
            while not stop.is_set():
                self.seal()
                self._wait(stop, SEAL_INTERVAL)

    def _wait(self, event: Event, seconds: float) -> None:
        """Wait until the event is set, for so many seconds at most; the loop turns before and after."""
        self.context.watch.turn(within=ceil(seconds) + MAX_SECONDS)
        event.wait(seconds)
        self.context.watch.turn()

    def pause(self, interval: float) -> float:
        """Return the seconds until the next timed task, at most `interval`."""
        waits: list[float | None] = []
        for next_of in (seconds_to_next, seconds_to_next_announcement):
            self._attempt(lambda next_of=next_of: waits.append(next_of(self.context.uow_factory)))  # type: ignore[misc]
        return max(MIN_PAUSE, min([interval, *(seconds for seconds in waits if seconds is not None)]))

    def _attempt(self, task: Callable[[], object]) -> bool:
        """Run a task; True if it did something. A failure is logged, and the next sweep retries the task."""
        try:
            return bool(task())
        except sqlalchemy.exc.OperationalError as error:
            logger.warning("a task was interrupted: the database is not available: %s", error.orig)
        except Exception:  # the sweeper must survive every error, which is logged with its traceback
            logger.exception("a task failed and will be retried")
        self.context.observer.task_failed()
        return False
