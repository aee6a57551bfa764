"""The context of the jobs of a process; the entry point of a worker sets it once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from integrations.github import GitHub
from integrations.spans import root_span
from integrations.traces import continued, job_metadata
from jobs.loop_watch import LoopWatch
from services.core.unit_of_work import UnitOfWorkFactory, Wakeups
from services.reconcile.reconciler import Reconciler

TIME_SLICE = 20.0
"""Seconds after which a job stops and sends its own wake-up again, behind those that are queued by then."""
BACKGROUND_TIME_SLICE = 2.0
"""The same for a job that no merge waits for, because a freeze may be waiting for this worker (I12)."""


class JobObserver(Protocol):
    """Counts the steps of jobs, and failures of tasks."""

    def step_done(self, job: str, seconds: float) -> None:
        """Count a step that did something."""

    def step_failed(self, job: str) -> None:
        """Count a step that ended with an error."""

    def task_failed(self) -> None:
        """Count a step of a task that ended with an error."""


class IgnoreJobs:
    """Counts nothing."""

    def step_done(self, job: str, seconds: float) -> None:
        """Do nothing."""

    def step_failed(self, job: str) -> None:
        """Do nothing."""

    def task_failed(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Context:
    """The database with the rights of jobs, the GitHub client, and the reconciler."""

    uow_factory: UnitOfWorkFactory
    github: GitHub
    reconciler: Reconciler
    started: Callable[[str], None]
    """Called with the name of a job when it starts; a wake-up sent later is queued, not merged with this one."""
    observer: JobObserver = field(default_factory=IgnoreJobs)
    """Counts what is done."""
    watch: LoopWatch = field(default_factory=LoopWatch)
    """Ends the process when a loop of it hangs, once it was started."""

    @property
    def wakeups(self) -> Wakeups:
        """Sends wake-ups."""
        return self.uow_factory.wakeups


_contexts: list[Context] = []


def set_context(context: Context) -> None:
    """Set the context of this process."""
    _contexts[:] = [context]


def get_context() -> Context:
    """Return the context of this process; raise RuntimeError in one that was not set up for jobs."""
    if not _contexts:
        raise RuntimeError("this process runs no jobs: start `python -m app worker`")
    return _contexts[0]


@contextmanager
def traced(name: str) -> Iterator[None]:
    """Run a job within the trace that woke it, or within one of its own."""
    with continued(job_metadata()), root_span(f"job {name}", "consumer"):
        yield


def run_for(context: Context, name: str, step: Callable[[], bool], time_slice: float) -> None:
    """Repeat `step` until it finds no work; after the time slice, wake the job again instead."""
    end = monotonic() + time_slice
    with traced(name):
        while step():
            if monotonic() > end:
                context.wakeups.send({name})
                return
