"""What the jobs of a process work with; its composition root (`app/worker.py`, `app/sweeper.py`) gives it once."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from integrations.github import GitHub
from services.core.unit_of_work import UnitOfWorkFactory, Wakeups
from services.reconcile.reconciler import Reconciler

TIME_SLICE = 20.0
"""Seconds after which a job makes way: what is left over is asked for anew, behind what came meanwhile."""
BACKGROUND_TIME_SLICE = 2.0
"""The same of a job that blocks nobody's merge: a freeze may be waiting for this worker (I12)."""


@dataclass(frozen=True, slots=True)
class Context:
    """The database as jobs see it, the code host, and the reconciler that joins them."""

    uow_factory: UnitOfWorkFactory
    github: GitHub
    reconciler: Reconciler
    begun: Callable[[str], None]
    """Says that the named job has begun, so that the next wake-up of it is not dropped."""

    @property
    def wakeups(self) -> Wakeups:
        """How further work is asked for."""
        return self.uow_factory.wakeups


_given: list[Context] = []


def set_context(context: Context) -> None:
    """Set the context of this process."""
    _given[:] = [context]


def get_context() -> Context:
    """Return the context of this process; raises RuntimeError in one that was not set up for jobs."""
    if not _given:
        raise RuntimeError("this process runs no jobs: start `python -m app worker` or `python -m app sweeper`")
    return _given[0]


def run_for(context: Context, name: str, step: Callable[[], bool], *, longest: float = BACKGROUND_TIME_SLICE) -> None:
    """Repeat `step` while it finds work, for one turn at most."""
    context.begun(name)
    end = monotonic() + longest
    while step():
        if monotonic() > end:
            context.wakeups.send({name})
            return
