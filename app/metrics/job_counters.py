"""Counters of workers: the work of queues, the steps of jobs, and the failures of tasks."""

import re
from functools import cache

from app.metrics import families
from jobs.registry import JOBS
from services.core.queue_observer import QueueObserver

MAX_CODES = 40
"""Codes of failures that one process distinguishes; some are words of other servers."""
_CODE = re.compile(r"[a-z][a-z0-9_]{0,39}")
_ACQUIRED = families.QUEUE_ACQUIRED.counter()
_TAKEN_OVER = families.QUEUE_TAKEN_OVER.counter()
_DONE = families.QUEUE_DONE.counter()
_POSTPONED = families.QUEUE_POSTPONED.counter()
_FAILURES = families.QUEUE_FAILURES.counter()
_LEASES_LOST = families.QUEUE_LEASES_LOST.counter()
_STEP_SECONDS = families.STEP_DURATION.histogram((0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30))
_STEP_ERRORS = families.STEP_ERRORS.counter()
_task_errors = cache(families.TASK_ERRORS.counter)


class QueueCounters(QueueObserver):
    """Counts the work of queues, which have the names of the jobs; the counters begin at 0."""

    def __init__(self) -> None:
        self._codes: set[str] = set()
        for name in JOBS:
            for counter in (_ACQUIRED, _TAKEN_OVER, _DONE, _POSTPONED, _LEASES_LOST):
                counter.labels(name)

    def acquired(self, kind: str, count: int, taken_over: int) -> None:
        """Count rows that were acquired, and how many of them from a lease that had ended."""
        _ACQUIRED.labels(kind).inc(count)
        _TAKEN_OVER.labels(kind).inc(taken_over)

    def released(self, kind: str, count: int) -> None:
        """Count rows whose work is done."""
        _DONE.labels(kind).inc(count)

    def postponed(self, kind: str, count: int) -> None:
        """Count rows that were given back and have not failed."""
        _POSTPONED.labels(kind).inc(count)

    def failed(self, kind: str, code: str, count: int) -> None:
        """Count rows whose work failed; a code that is not one of the first `MAX_CODES` counts as `other`."""
        if code not in self._codes:
            if len(self._codes) >= MAX_CODES or not _CODE.fullmatch(code):
                code = "other"
            else:
                self._codes.add(code)
        _FAILURES.labels(kind, code).inc(count)

    def lost(self, kind: str, count: int) -> None:
        """Count rows whose lease had ended when it was to be renewed or released."""
        _LEASES_LOST.labels(kind).inc(count)


class JobCounters:
    """Counts the steps of jobs, and failures of tasks; the counters begin at 0."""

    def __init__(self) -> None:
        for name in JOBS:
            _STEP_SECONDS.labels(name)
            _STEP_ERRORS.labels(name)
        _task_errors()

    def step_done(self, job: str, seconds: float) -> None:
        """Count a step that did something."""
        _STEP_SECONDS.labels(job).observe(seconds)

    def step_failed(self, job: str) -> None:
        """Count a step that ended with an error."""
        _STEP_ERRORS.labels(job).inc()

    def task_failed(self) -> None:
        """Count a step of a task that ended with an error."""
        _task_errors().inc()
