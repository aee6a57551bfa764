"""An organisation that is deleted, at the code host: it blocks nobody any more, whatever fails on the way."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from threading import Barrier, Thread
from typing import Any, cast

import orjson
import pytest
import sqlalchemy.exc

from integrations.github import GitHub
from jobs import background_thread, context
from jobs.context import Context
from jobs.registry import jobs_with_work
from jobs.sweep import Sweeper
from rules.errors import ServiceError
from services.core.unit_of_work import Caller
from services.enforcement import withdrawing
from services.enforcement.applying import SETUPS
from services.enforcement.confirming import MAX_WRITING_SECONDS
from services.offboarding.deletion import WITHDRAWAL_DELAY, delete, end_leftovers
from services.offboarding.withdrawal import MAX_ATTEMPTS, WITHDRAWALS, withdraw_due
from tests import factories
from tests.harness.webhook_queue import work
from tests.jobs.conftest import ADA, Builder, Town, build, fake_github, private_key, town
from tests.services.conftest import MovedClock
from tests.services.offboarding.test_withdrawal import RULESET, written

__all__ = ["build", "fake_github", "private_key", "town", "written"]

DELETING = "DELETE /repos/acme/web/rulesets"


@pytest.fixture
def owner(town: Town) -> str:
    """The address of acme's owner."""
    user = factories.user(town.session, "Olga")
    factories.membership(town.session, town.organization, user, "owner")
    town.session.commit()
    return user.email


def leave(town: Town, name: str = "Acme") -> dict[str, Any]:
    with town.uow_factory.open(Caller(town.organization.id, ADA, "dashboard", "business")) as uow:
        return delete(uow, name)


def pass_time(town: Town, **length: float) -> None:
    cast(MovedClock, town.jobs.clock).ahead += timedelta(**length)


def gone(town: Town, name: str = "Acme") -> None:
    """Delete it, and let the time pass in which somebody may still be writing rules."""
    leave(town, name)
    pass_time(town, seconds=WITHDRAWAL_DELAY.total_seconds())


def withdrawn(town: Town) -> None:
    while withdraw_due(town.jobs, town.github):
        pass


def waits(town: Town) -> bool:
    return "withdraw" in jobs_with_work(town.jobs)


def mails(town: Town) -> list[tuple[str, str]]:
    rows = town.sql("SELECT template, recipient FROM mails WHERE template <> 'organization_deleted' ORDER BY id")
    return [tuple(row) for row in rows]


def audit(town: Town) -> list[str]:
    return [row[0] for row in town.sql("SELECT action FROM audit_entries WHERE action LIKE '%r%.%e%' ORDER BY at, id")]


class TestHeads:
    def test_deletion_ends_freezes_and_releases_heads(self, town: Town, build: Builder) -> None:
        build("web", "api")
        work(town)
        town.freeze()
        town.settle()
        assert set(town.conclusions().values()) == {"failure"}
        leave(town)
        town.settle()
        assert set(town.conclusions().values()) == {"success"}
        assert town.sql("SELECT end_reason, released_at IS NOT NULL FROM freezes") == [("organization_deleted", True)]

    def test_new_head_succeeds_after_deletion(self, town: Town, build: Builder) -> None:
        build("web")
        work(town)
        leave(town)
        town.host.organization("acme").repository("web").pull_request(base="main")
        town.look_at_everything()
        town.settle()
        assert set(town.conclusions().values()) == {"success"}

    def test_freeze_committed_after_deletion_is_ended(self, town: Town, build: Builder) -> None:
        build("web")
        work(town)
        leave(town)
        town.freeze()
        town.settle()
        assert set(town.conclusions().values()) == {"failure"}
        assert end_leftovers(town.jobs) == 1
        town.settle()
        assert set(town.conclusions().values()) == {"success"}
        assert end_leftovers(town.jobs) == 0

    def test_freezes_that_race_with_the_deletion_all_end(self, town: Town, build: Builder) -> None:
        build("web")
        work(town)
        barrier = Barrier(4)

        def race(act: Callable[[], object]) -> None:
            barrier.wait()
            act()

        threads = [
            Thread(target=race, args=(act,)) for act in (town.freeze, town.freeze, town.freeze, partial(leave, town))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        end_leftovers(town.jobs)
        assert town.sql("SELECT DISTINCT end_reason FROM freezes") == [("organization_deleted",)]
        town.settle()
        assert set(town.conclusions().values()) == {"success"}

    def test_expired_freeze_is_not_ended_by_the_deletion(self, town: Town, build: Builder) -> None:
        build("web")
        work(town)
        branch = town.branches["acme/web"]
        factories.freeze(town.session, town.organization, [branch], ends_at=factories.now() - timedelta(seconds=1))
        town.session.commit()
        leave(town)
        assert end_leftovers(town.jobs) == 0
        assert town.sql("SELECT end_reason FROM freezes") == [(None,)]


class TestRulesets:
    def test_rulesets_are_removed_by_a_job_without_mail(self, town: Town, written: int, owner: str) -> None:
        gone(town)
        assert written in town.host.world.rulesets
        assert waits(town)
        withdrawn(town)
        assert written not in town.host.world.rulesets
        assert not waits(town)
        assert mails(town) == []

    def test_rulesets_stay_when_the_confirmed_name_is_wrong(self, town: Town, written: int) -> None:
        with pytest.raises(ServiceError):
            gone(town, "Globex")
        assert not waits(town)
        withdrawn(town)
        assert written in town.host.world.rulesets

    def test_ruleset_removal_is_retried_when_github_fails(self, town: Town, written: int, owner: str) -> None:
        gone(town)
        fault = town.host.faults.add("error", DELETING, status=502, message="Bad gateway")
        withdrawn(town)
        assert not waits(town)
        pass_time(town, seconds=31)
        assert waits(town)
        town.host.faults.clear(fault.id)
        withdrawn(town)
        assert written not in town.host.world.rulesets
        assert mails(town) == []

    def test_rulesets_that_may_not_be_removed_are_mailed_to_owners(self, town: Town, written: int, owner: str) -> None:
        gone(town)
        town.host.faults.add("error", DELETING, status=403, message="Not allowed")
        withdrawn(town)
        assert mails(town) == [("rules_left", owner)]
        [(details,)] = town.sql("SELECT details FROM audit_entries WHERE action = 'organization.rules_left'")
        assert f"acme/web: ruleset {written}, which requires the check change-freeze/main" in details["left"][0]
        pass_time(town, days=1)
        withdrawn(town)
        assert len(mails(town)) == 1

    def test_rulesets_are_mailed_to_owners_when_all_retries_failed(self, town: Town, written: int, owner: str) -> None:
        gone(town)
        town.host.faults.add("error", DELETING, status=502, message="Bad gateway")
        town.sql("UPDATE withdrawals SET attempts = :attempts", attempts=MAX_ATTEMPTS - 1)
        withdrawn(town)
        assert mails(town) == [("rules_left", owner)]
        pass_time(town, days=1)
        assert not waits(town)

    def test_ruleset_removal_pauses_when_rate_limited(self, town: Town, written: int, owner: str) -> None:
        release = {
            **RULESET,
            "name": "Change freeze: release",
            "conditions": {"ref_name": {"include": ["refs/heads/release"], "exclude": []}},
        }
        town.host.organization("acme").repository("web").ruleset(**release)
        [second] = [one.id for one in town.host.world.rulesets.values() if one.name == release["name"]]
        town.sql(
            "INSERT INTO written_rulesets SELECT level, :id, organization_id, installation_id, repository_id, "
            "'change-freeze/release', written_at FROM written_rulesets",
            id=second,
        )
        gone(town)
        message = "You have exceeded a secondary rate limit"
        fault = town.host.faults.add("error", DELETING, status=403, message=message)
        withdrawn(town)
        assert {written, second} <= set(town.host.world.rulesets)
        assert fault.struck == 1
        town.host.faults.clear(fault.id)
        pass_time(town, minutes=2)
        while withdraw_due(town.jobs, GitHub(town.github.settings)):  # the other one keeps quiet for a minute
            pass
        assert not {written, second} & set(town.host.world.rulesets)

    def test_rulesets_are_removed_by_the_next_worker_when_a_worker_dies(
        self, town: Town, written: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone(town)
        with monkeypatch.context() as patched:
            patched.setattr(withdrawing, "_carry_out", _die)
            with pytest.raises(SystemExit):
                withdraw_due(town.jobs, town.github)
        assert not waits(town)
        pass_time(town, seconds=WITHDRAWALS.lease.total_seconds() + 1)
        withdrawn(town)
        assert written not in town.host.world.rulesets

    def test_unrecorded_removal_is_recorded_by_the_next_worker(
        self, town: Town, written: int, owner: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone(town)
        with monkeypatch.context() as patched:
            patched.setattr(withdrawing, "save_ruleset", _die)
            with pytest.raises(SystemExit):
                withdraw_due(town.jobs, town.github)
        assert written not in town.host.world.rulesets
        pass_time(town, seconds=WITHDRAWALS.lease.total_seconds() + 1)
        withdrawn(town)
        assert town.sql("SELECT ruleset_id FROM written_rulesets") == []
        assert mails(town) == []

    def test_worker_that_lost_its_lease_sends_no_mail(
        self, town: Town, written: int, owner: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone(town)
        town.host.faults.add("error", DELETING, status=403, message="Not allowed")
        original = withdrawing._carry_out

        def slow(*arguments: Any) -> Any:
            town.sql("UPDATE withdrawals SET lease_token = 'other', lease_until = now() + interval '1 hour'")
            return original(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(withdrawing, "_carry_out", slow)
            withdraw_due(town.jobs, town.github)
        assert mails(town) == []

    def test_ruleset_removal_waits_until_running_setups_must_have_ended(self, town: Town, written: int) -> None:
        assert SETUPS.lease <= WITHDRAWAL_DELAY
        assert timedelta(seconds=MAX_WRITING_SECONDS + town.github.settings.deadline_seconds) < WITHDRAWAL_DELAY
        leave(town)
        assert not waits(town)
        assert not withdraw_due(town.jobs, town.github)
        pass_time(town, seconds=WITHDRAWAL_DELAY.total_seconds())
        assert waits(town)

    @pytest.mark.parametrize("happened", [True, False])
    def test_ruleset_with_an_unrecorded_creation_is_removed(
        self, town: Town, build: Builder, *, happened: bool
    ) -> None:
        build("web")
        checks = [{"context": "change-freeze/main", "integration_id": town.host.app_id}]
        parameters = {
            "required_status_checks": checks,
            "strict_required_status_checks_policy": False,
            "do_not_enforce_on_create": True,
        }
        after = {**RULESET, "rules": [{"type": "required_status_checks", "parameters": parameters}]}
        before = set(town.host.world.rulesets)
        if happened:
            town.person("POST", "/repos/acme/web/rulesets", after).raise_for_status()
        [(repository_id,)] = town.sql("SELECT id FROM repositories")
        announced = {
            "action": "create",
            "level": "repository",
            "account": "acme",
            "repositoryId": repository_id,
            "repository": "acme/web",
            "checkName": "change-freeze/main",
            "name": after["name"],
            "rulesetId": None,
            "before": None,
            "after": after,
        }
        town.sql(
            "INSERT INTO enforcement_setups (id, organization_id, scope, state, requested_by, created_at, progress) "
            "VALUES ('stp_1', :id, '{}', 'failed', '{}', now(), CAST(:progress AS jsonb))",
            id=town.organization.id,
            progress=orjson.dumps({"writing": announced}).decode(),
        )
        gone(town)
        withdrawn(town)
        assert set(town.host.world.rulesets) == before
        assert town.sql("SELECT progress FROM enforcement_setups") == [({},)]


def _die(*_: Any, **__: Any) -> Any:
    raise SystemExit


def test_withdrawal_without_rulesets_is_done_at_once(town: Town, owner: str) -> None:
    gone(town)
    assert withdraw_due(town.jobs, town.github)
    assert not withdraw_due(town.jobs, town.github)
    assert mails(town) == []
    assert audit(town)[-1] == "organization.deleted"


@pytest.fixture
def sweeper(town: Town) -> Iterator[Sweeper]:
    """Make a sweeper that no worker helps."""
    context.set_context(Context(town.jobs, town.github, town.reconciler, lambda _name: None))
    yield Sweeper(context.get_context(), lambda: False, timedelta(days=1000))
    background_thread.run_in_background("withdraw", lambda: False).join(10)
    context._contexts.clear()


def test_sweeper_completes_the_deletion_without_workers(town: Town, written: int, owner: str, sweeper: Sweeper) -> None:
    work(town)
    town.freeze()
    town.settle()
    gone(town)
    sweeper.sweep()
    background_thread.run_in_background("withdraw", lambda: False).join(10)
    assert written not in town.host.world.rulesets
    assert set(town.conclusions().values()) == {"success"}
    pass_time(town, days=30)
    sweeper.sweep()
    assert town.sql("SELECT purged_at IS NOT NULL, name FROM organizations") == [(True, "")]
    assert town.sql("SELECT count(*) FROM freezes") == [(0,)]


def test_deletion_fails_when_the_audit_cannot_be_written(town: Town, written: int) -> None:
    town.sql("REVOKE INSERT ON audit_entries FROM change_freeze_app")
    try:
        with pytest.raises(sqlalchemy.exc.ProgrammingError):
            leave(town)
    finally:
        town.sql("GRANT INSERT ON audit_entries TO change_freeze_app")
    assert town.sql("SELECT deleted_at FROM organizations") == [(None,)]
    assert town.sql("SELECT count(*) FROM withdrawals") == [(0,)]
    assert town.sql("SELECT count(*) FROM mails") == [(0,)]
