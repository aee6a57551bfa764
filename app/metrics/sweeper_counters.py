"""Counters of the sweeper, which a worker does not have."""

from app.metrics.job_counters import JobCounters
from services.monitoring import families

_TASK_ERRORS = families.SWEEPER_TASK_ERRORS.counter()
_LAST_SWEEP = families.SWEEPER_LAST_SWEEP.gauge()


class SweeperCounters(JobCounters):
    """Counts the steps of jobs, and what the sweeper does."""

    def task_failed(self) -> None:
        """Count a task that ended with an error."""
        _TASK_ERRORS.inc()

    def swept(self) -> None:
        """Record that a sweep has ended."""
        _LAST_SWEEP.set_to_current_time()
