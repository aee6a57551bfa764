"""Units of a worker before whose transactions something happens: it dies, people act, or a test looks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from services.core.unit_of_work import Authorize, Caller, UnitOfWork, UnitOfWorkFactory


class DeathError(BaseException):
    """Nothing handles it, as nothing handles kill -9."""


class WatchedUnits(UnitOfWorkFactory):
    """Units of a worker: something happens before each transaction, or before the n-th alone."""

    def __init__(self, uow_factory: UnitOfWorkFactory, happens: Callable[[], object], before: int = 0) -> None:
        super().__init__(uow_factory.engine, uow_factory.clock, uow_factory.wakeups, uow_factory.ports)
        self.happens, self.before = happens, before
        self.begun = 0
        """Transactions that were begun."""

    @contextmanager
    def open(
        self, caller: Caller, *, read_only: bool = False, authorize: Authorize | None = None
    ) -> Iterator[UnitOfWork]:
        self.begun += 1
        if self.begun == self.before or not self.before:
            self.happens()
        with super().open(caller, read_only=read_only, authorize=authorize) as uow:
            yield uow


def dying_units(uow_factory: UnitOfWorkFactory, transactions: int) -> WatchedUnits:
    """Return units of a process that dies after so many transactions: those have happened, and no later one does."""

    def die() -> None:
        if units.begun > transactions:
            raise DeathError

    units = WatchedUnits(uow_factory, die)
    return units
