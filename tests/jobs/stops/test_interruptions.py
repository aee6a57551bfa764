"""Stops when workers die, and when freezes begin and end between two transactions of a worker."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import pytest

from services.core.unit_of_work import SYSTEM_CALLER, Authorize, Caller, UnitOfWork, UnitOfWorkFactory
from services.enforcement.frozen_branches import write_due
from services.enforcement.stops import stop_due
from services.freezes.completion import record_enforcement_on
from services.restores.restores import confirm_restore, declare_restored, record_shown
from tests.harness.github_harness import Harness
from tests.jobs.setup.test_interruptions import DeathError, DyingUnits
from tests.jobs.stops.requests import branch, pass_time, required, stop, stop_from
from tests.jobs.stops.samples import sampled
from tests.jobs.stops.truths import assert_honest, come_right


def wherever(transactions: int) -> pytest.MarkDecorator:
    """Return the mark that runs a test for each of so many transactions; for a sample of them outside `make soak`."""
    numbers = range(1, transactions)
    return pytest.mark.parametrize("transactions", sampled(numbers, quick=numbers[3::8], checked=numbers[1::4]))


class InterruptedUnits(UnitOfWorkFactory):
    """Units of a worker: before its n-th transaction something else happens."""

    def __init__(self, uow_factory: UnitOfWorkFactory, left: int, happens: Callable[[], object]) -> None:
        super().__init__(uow_factory.engine, uow_factory.clock, uow_factory.wakeups, uow_factory.dependencies)
        self.left = left
        self.happens = happens

    @contextmanager
    def open(
        self, caller: Caller, *, read_only: bool = False, authorize: Authorize | None = None
    ) -> Iterator[UnitOfWork]:
        self.left -= 1
        if self.left == 0:
            self.happens()
        with super().open(caller, read_only=read_only, authorize=authorize) as uow:
            yield uow


def run(harness: Harness, units: UnitOfWorkFactory) -> None:
    """Do what is due for stops, until nothing is, or the worker dies."""
    with suppress(DeathError):
        while stop_due(units, harness.github):
            assert_honest(harness)


def take_over(harness: Harness) -> None:
    for table in ("frozen_branch_rulesets", "organization_stops", "branch_enforcement"):
        harness.sql(f"UPDATE {table} SET lease_until = '2000-01-01' WHERE lease_until IS NOT NULL")


@wherever(20)
def test_stop_comes_right_wherever_a_worker_dies(web: Harness, transactions: int) -> None:
    first = web.freeze(branch(web))
    run(web, DyingUnits(web.jobs, transactions))
    assert_honest(web)
    take_over(web)
    second = web.freeze(branch(web, "next"))
    run(web, DyingUnits(web.jobs, transactions))
    assert_honest(web)
    take_over(web)
    come_right(web)
    for freeze in (first, second):
        web.lift(freeze)
    come_right(web)


@wherever(16)
@pytest.mark.parametrize("lifts", ["both", "one"])
def test_stop_ends_wherever_a_worker_dies(web: Harness, transactions: int, lifts: str) -> None:
    freezes = [web.freeze(branch(web)), web.freeze(branch(web, "next"))]
    stop(web)
    for freeze in freezes[: 2 if lifts == "both" else 1]:
        web.lift(freeze)
    run(web, DyingUnits(web.jobs, transactions))
    assert_honest(web)
    take_over(web)
    come_right(web)


@wherever(16)
def test_freeze_that_starts_while_a_stop_ends_is_held(web: Harness, transactions: int) -> None:
    first = web.freeze(branch(web))
    stop(web)
    web.lift(first)

    def freeze_again() -> None:
        web.freeze(branch(web))
        with web.jobs.open(SYSTEM_CALLER) as uow:
            record_enforcement_on(uow, [web.branches["acme/web:main"].id])
        assert_honest(web)

    run(web, InterruptedUnits(web.jobs, transactions, freeze_again))
    assert_honest(web)
    web.freeze(branch(web, "next"))
    stop(web)
    assert required(web)
    come_right(web)


@wherever(16)
def test_lift_while_a_stop_begins_frees_the_branch(web: Harness, transactions: int) -> None:
    freeze = web.freeze(branch(web))
    run(web, InterruptedUnits(web.jobs, transactions, lambda: web.lift(freeze)))
    assert_honest(web)
    come_right(web)


@wherever(8)
def test_freeze_that_starts_while_rulesets_are_written_is_stopped(web: Harness, transactions: int) -> None:
    stop_from(web, heads=2)
    few = web.freeze(branch(web))
    units = InterruptedUnits(web.jobs, transactions, web.freeze)
    while write_due(units, web.github):
        pass
    if units.left > 0:
        web.freeze()
    stop(web)
    assert len(required(web)) == 1
    assert few
    come_right(web)


def test_no_stop_ends_while_a_restore_is_not_confirmed(web: Harness) -> None:
    freeze = web.freeze()
    stop(web)
    with web.jobs.open(SYSTEM_CALLER) as uow:
        declare_restored(uow)
    web.lift(freeze)
    for _ in range(3):
        stop(web)
        pass_time(web, timedelta(seconds=30))
    assert len(required(web)) == 1
    assert web.sql("SELECT last_error_code FROM frozen_branch_rulesets") == [("maintenance",)]
    with web.jobs.open(SYSTEM_CALLER) as uow:
        record_shown(uow)
    confirm_restore(web.jobs, by="grace@example.com")
    come_right(web)
