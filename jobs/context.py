"""The context of the jobs of a process; the entry point of a worker or sweeper sets it once."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from integrations.github import GitHub
from services.core.unit_of_work import UnitOfWorkFactory, Wakeups
from services.reconcile.reconciler import Reconciler

TIME_SLICE = 20.0
"""Seconds after which a job stops and sends its own wake-up again, behind those that are queued by then."""
BACKGROUND_TIME_SLICE = 2.0
"""The same for a job that no merge waits for, because a freeze may be waiting for this worker (I12)."""


@dataclass(frozen=True, slots=True)
class Context:
    """The database with the rights of jobs, the GitHub client, and the reconciler."""

    uow_factory: UnitOfWorkFactory
    github: GitHub
    reconciler: Reconciler
    started: Callable[[str], None]
    """Called with the name of a job when it starts; a wake-up sent later is queued, not merged with this one."""

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
        raise RuntimeError("this process runs no jobs: start `python -m app worker` or `python -m app sweeper`")
    return _contexts[0]


def run_for(context: Context, name: str, step: Callable[[], bool], time_slice: float) -> None:
    """Repeat `step` until it finds no work; after the time slice, wake the job again instead."""
    end = monotonic() + time_slice
    while step():
        if monotonic() > end:
            context.wakeups.send({name})
            return
