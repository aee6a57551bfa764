"""Setting enforcement up when workers die and the code host refuses: each ruleset is written and audited once."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import pytest

from integrations.github.sockets import CALL_DEADLINE
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.enforcement.applying import apply_due
from tests.jobs.conftest import Town
from tests.jobs.setup.requests import (
    MAIN,
    abandoned_with_a_rule_of_others,
    actions,
    add,
    ask,
    audit,
    names,
    state,
    work,
)


class TestDeath:
    """What a worker that was killed leaves behind."""

    def test_unrecorded_creation_is_recognised(self, town: Town) -> None:
        add(town, "web")
        ask(town)
        town.settle()
        fault = town.host.faults.add("disconnect", "POST /repos/acme/web/rulesets", after=True, count=1)
        assert apply_due(town.jobs, town.github)
        town.host.faults.clear(fault.id)
        assert town.sql("SELECT count(*) FROM written_rulesets")[0][0] == 0
        work(town)
        assert names(town.host) == {"web": ["Change freeze: main"]}
        assert state(town)[:2] == ("done", 1)
        assert audit(town) == ["enforcement.setup_requested", "ruleset.created"]

    def test_identical_ruleset_of_others_is_not_taken_for_ours(self, town: Town) -> None:
        add(town, "web")
        [change] = ask(town, "plan")["changes"]
        town.host.organization("acme").repository("web").ruleset(**change["after"])
        assert actions(ask(town)) == [("none", "repository", "acme/web")]
        work(town)
        assert town.sql("SELECT count(*) FROM written_rulesets")[0][0] == 0

    def test_unrecorded_update_is_audited_once(self, town: Town) -> None:
        add(town, "web")
        ask(town)
        work(town)
        [ruleset] = town.host.world.rulesets.values()
        ruleset.enforcement = "evaluate"
        ask(town)
        town.settle()
        fault = town.host.faults.add("disconnect", f"PUT /repos/acme/web/rulesets/{ruleset.id}", after=True, count=1)
        assert apply_due(town.jobs, town.github)
        town.host.faults.clear(fault.id)
        work(town)
        assert audit(town)[-2:] == ["enforcement.setup_requested", "ruleset.updated"]

    def test_unrecorded_removal_of_our_check_ends_ownership(self, town: Town) -> None:
        ruleset = abandoned_with_a_rule_of_others(town)
        ask(town)
        town.settle()
        fault = town.host.faults.add("disconnect", f"PUT /repos/acme/web/rulesets/{ruleset.id}", after=True, count=1)
        assert apply_due(town.jobs, town.github)
        town.host.faults.clear(fault.id)
        work(town)
        assert ruleset.rules == [{"type": "deletion"}]
        assert town.sql("SELECT check_name FROM written_rulesets") == [(MAIN,)]
        assert audit(town)[-2:] == ["enforcement.setup_requested", "ruleset.updated"]

    def test_expired_lease_of_a_setup_is_taken_over(self, town: Town) -> None:
        add(town, "web")
        ask(town)
        town.settle()
        town.sql("UPDATE enforcement_setups SET lease_until = clock_timestamp() + interval '50 s'")
        assert not apply_due(town.jobs, town.github)
        town.sql("UPDATE enforcement_setups SET lease_until = clock_timestamp() - interval '1 s'")
        assert apply_due(town.jobs, town.github)
        assert state(town)[0] == "done"


class DyingUnits(UnitOfWorkFactory):
    """Units of a process that dies as it begins the n-th transaction: whatever went before has happened."""

    def __init__(self, uow_factory: UnitOfWorkFactory, left: int) -> None:
        super().__init__(uow_factory.engine, uow_factory.clock, uow_factory.wakeups, uow_factory.dependencies)
        self.left = left

    @contextmanager
    def open(self, caller: Caller, *, read_only: bool = False) -> Iterator[UnitOfWork]:
        self.left -= 1
        if self.left < 0:
            raise DeathError
        with super().open(caller, read_only=read_only) as uow:
            yield uow


class DeathError(BaseException):
    """Nothing handles it, as nothing handles kill -9."""


@pytest.mark.parametrize("transactions", range(1, 12))
def test_each_ruleset_is_written_once_wherever_a_worker_dies(town: Town, transactions: int) -> None:
    add(town, "web", "api", branches=("main", "next"))
    ask(town, scope={"type": "repositories", "repositories": ["acme/web", "acme/api"]})
    town.settle()
    with suppress(DeathError):
        apply_due(DyingUnits(town.jobs, transactions), town.github)
    town.sql("UPDATE enforcement_setups SET lease_until = clock_timestamp() - interval '1 s' WHERE due_at IS NOT NULL")
    work(town)
    both = ["Change freeze: main", "Change freeze: next"]
    assert names(town.host) == {"web": both, "api": both}
    assert state(town) == ("done", 4, None)
    assert audit(town) == ["enforcement.setup_requested"] + ["ruleset.created"] * 4
    assert town.sql("SELECT count(*) FROM written_rulesets")[0][0] == 4


class TestRefusals:
    def test_setup_is_retried_later_when_github_is_down(self, town: Town) -> None:
        add(town, "web")
        ask(town)
        town.settle()
        fault = town.host.faults.add("error", "/repos/acme/web/rulesets", status=502)
        assert apply_due(town.jobs, town.github)
        assert not apply_due(town.jobs, town.github)
        assert state(town)[0] == "queued"
        town.host.faults.clear(fault.id)
        work(town)
        assert state(town)[0] == "done"

    def test_failed_write_leaves_no_deadline_behind(self, town: Town) -> None:
        add(town, "web")
        ask(town)
        town.settle()
        town.host.faults.add("error", "POST /repos/acme/web/rulesets", status=502)
        gc.disable()  # what the error holds would else be freed sooner or later
        try:
            assert apply_due(town.jobs, town.github)
            assert CALL_DEADLINE.get(None) is None
        finally:
            gc.enable()

    def test_setup_waits_for_a_rate_limit(self, town: Town) -> None:
        add(town, "web")
        ask(town)
        town.settle()
        message = "You have exceeded a secondary rate limit"
        town.host.faults.add("error", "POST /repos/acme/web/rulesets", status=403, message=message, count=1)
        assert apply_due(town.jobs, town.github)
        [(paused, due)] = town.sql(
            "SELECT i.paused_until - clock_timestamp(), s.due_at - clock_timestamp() "
            "FROM installations i, enforcement_setups s"
        )
        assert paused > timedelta(seconds=50)
        assert due > timedelta(seconds=50)

    def test_refused_ruleset_is_reported_and_the_rest_is_written(self, town: Town) -> None:
        add(town, "web", "api")
        scope = {"type": "repositories", "repositories": ["acme/web", "acme/api"]}
        ask(town, scope=scope)
        town.settle()
        town.host.faults.add("error", "POST /repos/acme/web/rulesets", status=403)
        work(town)
        assert names(town.host) == {"api": ["Change freeze: main"]}
        assert town.sql("SELECT id FROM enforcement_setups WHERE jsonb_exists(progress, 'writing')") == []
        outcome, written, told = state(town)
        assert (outcome, written) == ("failed", 1)
        assert told is not None
        assert "acme/web" in told
