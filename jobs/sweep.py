"""The sweep: the tasks that workers run again and again, by time and without a wake-up. It needs PostgreSQL only.

RQ only makes the service fast; the sweep makes it correct. Its tasks start windows and record ends, seal the audit log,
keep up what is stored, wake the jobs that have work, and run them here if Redis cannot be reached or no worker takes
wake-ups.

Every worker sweeps. A task is a row that one process leases at a time: if the process dies, another one runs the task
at once. Each worker has three threads for tasks, so that a window starts when it is due, and entries are sealed, even
while a long fan-out runs there.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from math import ceil
from threading import Event, Thread

import sqlalchemy.exc

from jobs.context import Context
from jobs.loop_watch import MAX_SECONDS
from jobs.registry import JOBS, jobs_with_work
from models.requests import MORE_WINDOWS, WINDOWS
from services.audit.hash_chain import MORE_SEALERS, SEALER, seal_entries
from services.billing.trials import announce_trial_ends
from services.core.sweep_tasks import queue_of, record_done, request_tasks, seconds_to_next_task
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.core.work_queue import Lease, WorkQueue
from services.maintenance.resync import resync
from services.maintenance.retention import purge_expired
from services.maintenance.tasks import (
    cover_remaining,
    end_freezes,
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
"""Shortest time in seconds between two runs of a task."""
SEAL_INTERVAL = 1.0
"""Seconds between two runs of the sealer; an entry must be sealed within five seconds."""
MAX_PAUSE = 1.0
"""Seconds after which a process looks for due tasks again: the process that runs one may have died."""
OVERDUE = 0.5
"""Seconds after which another process than the one that ran the last task takes one that is due."""
LOST_WORK = "lost_work"


@dataclass(frozen=True, slots=True)
class Lane:
    """Tasks that one thread of each process runs, one after the other.

    A lease lasts for `limit`: a task that takes longer is run by another process as well, which is safe for all tasks.
    A thread that does nothing for `MAX_SECONDS` ends its process.
    """

    name: str
    tasks: tuple[str, ...]
    limit: timedelta
    interval: float | None = None
    """Seconds from the end of a task to the next time, where it is not that of the configuration."""
    helpers: tuple[str, ...] = ()
    """Which of the tasks run only while another one requests them: they do the same beside it, in other processes."""
    queue: WorkQueue = field(init=False)

    def __post_init__(self) -> None:
        """Make the queue."""
        object.__setattr__(self, "queue", queue_of(self.name, self.tasks, self.limit))


TIME = Lane("time", (WINDOWS, *MORE_WINDOWS), timedelta(seconds=5), helpers=MORE_WINDOWS)
SEALS = Lane("seals", (SEALER, *MORE_SEALERS), timedelta(seconds=2.5), SEAL_INTERVAL, MORE_SEALERS)
UPKEEP = Lane("upkeep", ("restore", "schedules", "freezes", "resync", "retention", LOST_WORK), timedelta(seconds=15))
LANES = (TIME, SEALS, UPKEEP)


@dataclass(frozen=True, slots=True)
class Sweeper:
    """What runs the tasks; any number of processes may have one."""

    context: Context
    workers_available: Callable[[], bool]
    """True if Redis can be reached and workers accept wake-ups."""
    resync_period: timedelta
    synchronous_standbys: bool = False
    """True if a fail-over of PostgreSQL loses no commit."""

    def sweep(self) -> None:
        """Run every task once, whether it is due or not; a step that fails does not stop the others."""
        for lane in LANES:
            for task in lane.tasks:
                self._run_jobs(self.run_task(task)[1])

    def run_task(self, task: str) -> tuple[bool, list[str]]:
        """Run a task; return whether it did anything, and the jobs that this process has to run after it."""
        done = [self._attempt(partial(step, self.context.uow_factory)) for step in self._steps(task)]
        jobs: list[str] = []
        if task == LOST_WORK:
            self._attempt(lambda: jobs.extend(self._find_lost_work()))
        return any(done), jobs

    def _steps(self, task: str) -> Iterable[Callable[[UnitOfWorkFactory], object]]:
        """Return what a task does, in its order.

        Windows start before freezes end, so that a branch stays blocked when one follows the other.
        """
        steps: dict[str, tuple[Callable[[UnitOfWorkFactory], object], ...]] = {
            **dict.fromkeys(MORE_WINDOWS, (start_windows, end_freezes)),
            WINDOWS: (start_windows, end_freezes, end_exceptions, cover_remaining, record_missed, announce_windows),
            **dict.fromkeys((SEALER, *MORE_SEALERS), (seal_entries,)),
            "restore": (partial(notice_restore, synchronous_standbys=self.synchronous_standbys),),
            "schedules": (verify_windows, compare_windows, resolve_outdated_alerts, extend_plans, find_overlaps),
            "freezes": (repair_completions, review_enforcement),
            "resync": (partial(resync, period=self.resync_period),),
            "retention": (purge_expired, end_leftovers, purge_deleted, rotate_keys, announce_trial_ends),
            LOST_WORK: (),
        }
        return steps[task]

    def _find_lost_work(self) -> list[str]:
        """Wake the jobs that have work; return those that no worker would run."""
        names = jobs_with_work(self.context.uow_factory)
        for_workers = {name for name in names if not JOBS[name].by_sweep}
        if for_workers and self.workers_available():
            self.context.wakeups.send(for_workers)
            names = [name for name in names if name not in for_workers]
        return names

    def _run_jobs(self, names: Iterable[str]) -> None:
        for name in names:
            self._attempt(JOBS[name].run)

    def run(self, stop: Event, interval: float) -> None:
        """Run tasks that are due, the usual ones every `interval` seconds, until `stop` is set."""
        threads = [Thread(target=self._run_lane, args=(lane, stop, interval), name=lane.name) for lane in LANES]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run_lane(self, lane: Lane, stop: Event, interval: float) -> None:
        """Run the tasks of a lane until `stop` is set.

        A process that ran the last one goes on when the next is due; others only look, and take one that is overdue.
        """
        goes_on = False
        with self.context.watch.working():
            while not stop.is_set():
                seconds = self._seconds_to_next(lane)
                pause = MAX_PAUSE if seconds is None else seconds if goes_on else seconds + OVERDUE
                if pause > 0:
                    self._wait(stop, max(MIN_PAUSE, min(MAX_PAUSE, pause)))
                if pause > MAX_PAUSE or (pause > 0 and seconds is not None and not goes_on):
                    continue
                goes_on = False
                while not stop.is_set() and self._attempt(partial(self._run_next, lane, interval)):
                    goes_on = True
                if not goes_on:
                    self._wait(stop, MAX_PAUSE)

    def _run_next(self, lane: Lane, interval: float) -> bool:
        """Run the next task of a lane that is due and that no process runs; False if there is none."""
        left: list[str] = []

        def run(lease: Lease) -> None:
            done, jobs = self.run_task(lease.row.name)
            left.extend(jobs)
            seconds = self._seconds_until_again(lane, lease.row.name, interval)
            with self.context.uow_factory.open(SYSTEM_CALLER) as uow:
                record_done(uow, lease, seconds)
                if lane is TIME and done:
                    request_tasks(uow, LOST_WORK)  # what it has made due, where no wake-up is sent

        found = lane.queue.work_on_next(self.context.uow_factory, run)
        self._run_jobs(left)  # their rows have leases of their own, and another process looks for work meanwhile
        return found

    def _seconds_until_again(self, lane: Lane, task: str, interval: float) -> float | None:
        """Return the seconds after which a task that was done is due again; None: when it is requested."""
        if task in lane.helpers:
            return None
        return self.pause(interval) if lane is TIME else lane.interval or interval

    def _seconds_to_next(self, lane: Lane) -> float | None:
        """Return the seconds until a task is due that no process runs; None if all are run: its process may die."""
        waits: list[float | None] = []

        def read() -> None:
            with self.context.uow_factory.open(SYSTEM_CALLER) as uow:
                waits.append(seconds_to_next_task(uow, lane.tasks))

        self._attempt(read)
        return next(iter(waits), None)

    def _wait(self, event: Event, seconds: float) -> None:
        """Wait until the event is set, for so many seconds at most; the loop turns before and after."""
        self.context.watch.turn(within=ceil(seconds) + MAX_SECONDS)
        event.wait(seconds)
        self.context.watch.turn()

    def pause(self, interval: float) -> float:
        """Return the seconds until something is due by time, at most `interval`."""
        waits: list[float | None] = []
        for next_of in (seconds_to_next, seconds_to_next_announcement):
            self._attempt(lambda next_of=next_of: waits.append(next_of(self.context.uow_factory)))  # type: ignore[misc]
        return max(MIN_PAUSE, min([interval, *(seconds for seconds in waits if seconds is not None)]))

    def _attempt(self, step: Callable[[], object]) -> bool:
        """Run a step; True if it did something. A failure is logged, and the next sweep retries the step."""
        try:
            return bool(step())
        except sqlalchemy.exc.OperationalError as error:
            logger.warning("a task was interrupted: the database is not available: %s", error.orig)
        except Exception:  # the sweep must survive every error, which is logged with its traceback
            logger.exception("a task failed and will be retried")
        self.context.observer.task_failed()
        return False
