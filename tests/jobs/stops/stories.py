"""What happens to the stops of a repository and to those of an organisation alike."""

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWorkFactory
from services.enforcement.stops import stop_due
from services.freezes.completion import record_enforcement_on
from tests.harness.github_harness import Harness
from tests.harness.restores import declare_restored, show_and_confirm
from tests.harness.watched_units import DeathError, WatchedUnits, dying_units
from tests.jobs.stops.requests import stop
from tests.jobs.stops.truths import assert_honest, come_right

Scope = dict[str, Any]


def run(harness: Harness, units: UnitOfWorkFactory) -> None:
    """Do what is due for stops, until nothing is, or the worker dies."""
    with suppress(DeathError):
        while stop_due(units, harness.github):
            assert_honest(harness)


def take_over(harness: Harness) -> None:
    """Have every lease end."""
    for table in ("frozen_branch_rulesets", "organization_stops", "branch_enforcement"):
        harness.sql(f"UPDATE {table} SET lease_until = '2000-01-01' WHERE lease_until IS NOT NULL")


def freeze_and_lift_in_spite_of(harness: Harness, **fault: Any) -> None:
    """Freeze while GitHub has a fault, and lift the freeze when it is over: all comes right."""
    harness.fake_github.faults.add(**fault)
    freeze = harness.freeze()
    stop(harness)
    assert_honest(harness)
    harness.fake_github.faults.clear()
    come_right(harness)
    harness.lift(freeze)
    come_right(harness)


def lift_in_spite_of(harness: Harness, requires: Callable[[Harness], Collection[str]], **fault: Any) -> None:
    """Lift a freeze whose stop is on, while GitHub has a fault for a minute: all comes right."""
    freeze = harness.freeze()
    stop(harness)
    assert requires(harness)
    harness.fake_github.faults.add(**fault)
    harness.lift(freeze)
    for _ in range(4):
        stop(harness)
        harness.pass_time(seconds=15)
    harness.fake_github.faults.clear()
    come_right(harness)


def die_while_two_freezes_begin(harness: Harness, scopes: tuple[Scope, Scope], transactions: int) -> None:
    """Have a worker die before this transaction, once in each of two freezes: all comes right."""
    freezes = []
    for scope in scopes:
        freezes.append(harness.freeze(scope))
        run(harness, dying_units(harness.jobs, transactions))
        assert_honest(harness)
        take_over(harness)
    come_right(harness)
    for freeze in freezes:
        harness.lift(freeze)
    come_right(harness)


def die_after_lifting(harness: Harness, freezes: Collection[str], transactions: int) -> None:
    """Lift freezes whose stop is on, and have a worker die before this transaction: all comes right."""
    stop(harness)
    for freeze in freezes:
        harness.lift(freeze)
    run(harness, dying_units(harness.jobs, transactions))
    assert_honest(harness)
    take_over(harness)
    come_right(harness)


def freeze_again_while_a_stop_ends(
    harness: Harness, scope: Scope, branch_ids: Collection[str], transactions: int
) -> None:
    """Lift a freeze whose stop is on, and freeze again before this transaction of its end: no moment is claimed."""
    first = harness.freeze(scope)
    stop(harness)
    harness.lift(first)

    def freeze_again() -> None:
        harness.freeze(scope)
        with harness.jobs.open(SYSTEM_CALLER) as uow:
            record_enforcement_on(uow, branch_ids)
        assert_honest(harness)

    run(harness, WatchedUnits(harness.jobs, freeze_again, transactions))
    assert_honest(harness)


def lift_while_a_stop_begins(harness: Harness, scope: Scope, transactions: int) -> None:
    """Lift a freeze before this transaction of its stop: all comes right."""
    freeze = harness.freeze(scope)
    run(harness, WatchedUnits(harness.jobs, lambda: harness.lift(freeze), transactions))
    assert_honest(harness)
    come_right(harness)


def lift_before_a_restore_is_confirmed(
    harness: Harness, requires: Callable[[Harness], Collection[str]], table: str
) -> None:
    """Lift a freeze while a restore is not confirmed: its stop stays on until it is, and the row says why."""
    freeze = harness.freeze()
    stop(harness)
    declare_restored(harness)
    harness.lift(freeze)
    for _ in range(3):
        stop(harness)
        harness.pass_time(seconds=30)
    assert len(requires(harness)) == 1
    assert harness.sql(f"SELECT last_error_code FROM {table}") == [("maintenance",)]
    show_and_confirm(harness)
    come_right(harness)


def work_for(harness: Harness, seconds: int, sees: Callable[[], object]) -> None:
    """Do what is due for stops in this time; something is looked at before each transaction, and after the last."""
    for _ in range(0, seconds, 2):
        while stop_due(WatchedUnits(harness.jobs, sees), harness.github):
            pass
        sees()
        harness.pass_time(seconds=2)
