"""Units of work for a command, on connections of its own."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.config import Config
from app.database import make_engine
from app.database_connections import ANSWER_TIMEOUT_SECONDS
from app.wiring import ports_of
from services.core.clock import DatabaseClock
from services.core.unit_of_work import UnitOfWorkFactory, Wakeups


class NoWakeups:
    """For commands that leave no work to jobs."""

    def send(self, names: set[str]) -> None:
        """Send nothing."""


@contextmanager
def units_of_work(
    config: Config,
    role: str,
    wakeups: Wakeups | None = None,
    *,
    connections: int = 1,
    answer_timeout: float | None = ANSWER_TIMEOUT_SECONDS,
) -> Iterator[UnitOfWorkFactory]:
    """Yield a factory whose transactions take a role, and close its connections at the end.

    Jobs are not woken without `wakeups`; `answer_timeout` is that of `make_engine`.
    """
    engine = make_engine(config.database_url, connections, role=role, answer_timeout=answer_timeout)
    try:
        yield UnitOfWorkFactory(engine, DatabaseClock(), wakeups or NoWakeups(), ports_of(config))
    finally:
        engine.dispose()
