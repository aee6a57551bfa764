"""An organisation that is deleted, at GitHub: it blocks no pull request any more, whatever fails on the way."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import orjson
import pytest
import sqlalchemy.exc

from integrations.github import GitHub
from jobs import background_thread, context
from jobs.context import Context
from jobs.registry import jobs_with_work
from jobs.sweep import Sweeper
from services.enforcement import ruleset_removal
from services.enforcement.confirmation import MAX_WRITING_SECONDS
from services.enforcement.setup_runs import SETUPS
from services.offboarding.deletion import WITHDRAWAL_DELAY, delete, end_leftovers
from services.offboarding.withdrawal import MAX_ATTEMPTS, WITHDRAWALS, withdraw_due
from tests import factories
from tests.harness.concurrency import at_once
from tests.harness.github_harness import Builder, Harness
from tests.harness.webhook_queue import work
from tests.jobs.conftest import build, fake_github, harness
from tests.services.offboarding.test_withdrawal import RULESET, written

__all__ = ["build", "fake_github", "harness", "written"]

DELETING = "DELETE /repos/acme/web/rulesets"


@pytest.fixture
def owner(harness: Harness) -> str:
    """The address of acme's owner."""
    user = factories.member(harness.session, harness.organization, "owner", "Olga")
    harness.session.commit()
    return user.email


def leave(harness: Harness, name: str = "Acme") -> dict[str, Any]:
    with harness.unit() as uow:
        return delete(uow, name)


def gone(harness: Harness, name: str = "Acme") -> None:
    """Delete it, and let the time pass in which a person may still be writing rules."""
    leave(harness, name)
    harness.pass_time(seconds=WITHDRAWAL_DELAY.total_seconds())


def withdrawn(harness: Harness) -> None:
    while withdraw_due(harness.jobs, harness.github):
        pass


def waits(harness: Harness) -> bool:
    return "withdraw" in jobs_with_work(harness.jobs)


def mails(harness: Harness) -> list[tuple[str, str]]:
    rows = harness.sql("SELECT template, recipient FROM mails WHERE template <> 'organization_deleted' ORDER BY id")
    return [tuple(row) for row in rows]


def audit(harness: Harness) -> list[str]:
    return [
        row[0] for row in harness.sql("SELECT action FROM audit_entries WHERE action LIKE '%r%.%e%' ORDER BY at, id")
    ]


class TestHeads:
    def test_new_head_succeeds_after_deletion(self, harness: Harness, build: Builder) -> None:
        build("web")
        work(harness)
        leave(harness)
        harness.fake_github.organization("acme").repository("web").pull_request(base="main")
        harness.full_resync()
        harness.run_until_idle()
        assert set(harness.conclusions().values()) == {"success"}

    def test_freeze_committed_after_deletion_is_ended(self, harness: Harness, build: Builder) -> None:
        build("web")
        work(harness)
        leave(harness)
        harness.freeze()
        harness.run_until_idle()
        assert set(harness.conclusions().values()) == {"failure"}
        assert end_leftovers(harness.jobs) == 1
        harness.run_until_idle()
        assert set(harness.conclusions().values()) == {"success"}
        assert end_leftovers(harness.jobs) == 0

    def test_freezes_that_race_with_the_deletion_all_end(self, harness: Harness, build: Builder) -> None:
        build("web")
        work(harness)
        at_once(*[harness.freeze] * 3, partial(leave, harness))
        end_leftovers(harness.jobs)
        assert harness.sql("SELECT DISTINCT end_reason FROM freezes") == [("organization_deleted",)]
        harness.run_until_idle()
        assert set(harness.conclusions().values()) == {"success"}

    def test_expired_freeze_is_not_ended_by_the_deletion(self, harness: Harness, build: Builder) -> None:
        build("web")
        work(harness)
        branch = harness.branches["acme/web"]
        factories.freeze(
            harness.session, harness.organization, [branch], ends_at=factories.now() - timedelta(seconds=1)
        )
        harness.session.commit()
        leave(harness)
        assert end_leftovers(harness.jobs) == 0
        assert harness.sql("SELECT end_reason FROM freezes") == [(None,)]


class TestRulesets:
    def test_rulesets_are_removed_by_a_job_without_mail(self, harness: Harness, written: int, owner: str) -> None:
        gone(harness)
        assert written in harness.fake_github.world.rulesets
        assert waits(harness)
        withdrawn(harness)
        assert written not in harness.fake_github.world.rulesets
        assert not waits(harness)
        assert mails(harness) == []

    def test_ruleset_removal_is_retried_when_github_fails(self, harness: Harness, written: int, owner: str) -> None:
        gone(harness)
        fault = harness.fake_github.faults.add("error", DELETING, status=502, message="Bad gateway")
        withdrawn(harness)
        assert not waits(harness)
        harness.pass_time(seconds=31)
        assert waits(harness)
        harness.fake_github.faults.clear(fault.id)
        withdrawn(harness)
        assert written not in harness.fake_github.world.rulesets
        assert mails(harness) == []

    def test_rulesets_that_may_not_be_removed_are_mailed_to_owners(
        self, harness: Harness, written: int, owner: str
    ) -> None:
        gone(harness)
        harness.fake_github.faults.add("error", DELETING, status=403, message="Not allowed")
        withdrawn(harness)
        assert mails(harness) == [("rules_left", owner)]
        [(details,)] = harness.sql("SELECT details FROM audit_entries WHERE action = 'organization.rules_left'")
        assert f"acme/web: ruleset {written}, which requires the check change-freeze/main" in details["left"][0]
        harness.pass_time(days=1)
        withdrawn(harness)
        assert len(mails(harness)) == 1

    def test_rulesets_are_mailed_to_owners_when_all_retries_failed(
        self, harness: Harness, written: int, owner: str
    ) -> None:
        gone(harness)
        harness.fake_github.faults.add("error", DELETING, status=502, message="Bad gateway")
        harness.sql("UPDATE withdrawals SET attempts = :attempts", attempts=MAX_ATTEMPTS - 1)
        withdrawn(harness)
        assert mails(harness) == [("rules_left", owner)]
        harness.pass_time(days=1)
        assert not waits(harness)

    def test_ruleset_removal_pauses_when_rate_limited(self, harness: Harness, written: int, owner: str) -> None:
        release = {
            **RULESET,
            "name": "Change freeze: release",
            "conditions": {"ref_name": {"include": ["refs/heads/release"], "exclude": []}},
        }
        harness.fake_github.organization("acme").repository("web").ruleset(**release)
        [second] = [one.id for one in harness.fake_github.world.rulesets.values() if one.name == release["name"]]
        harness.sql(
            "INSERT INTO written_rulesets SELECT level, :id, organization_id, installation_id, repository_id, "
            "'change-freeze/release', written_at FROM written_rulesets",
            id=second,
        )
        gone(harness)
        message = "You have exceeded a secondary rate limit"
        fault = harness.fake_github.faults.add("error", DELETING, status=403, message=message)
        withdrawn(harness)
        assert {written, second} <= set(harness.fake_github.world.rulesets)
        assert fault.struck == 1
        harness.fake_github.faults.clear(fault.id)
        harness.pass_time(minutes=2)
        while withdraw_due(harness.jobs, GitHub(harness.github.settings)):  # the other one keeps quiet for a minute
            pass
        assert not {written, second} & set(harness.fake_github.world.rulesets)

    def test_rulesets_are_removed_by_the_next_worker_when_a_worker_dies(
        self, harness: Harness, written: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone(harness)
        with monkeypatch.context() as patched:
            patched.setattr(ruleset_removal, "_carry_out", _die)
            with pytest.raises(SystemExit):
                withdraw_due(harness.jobs, harness.github)
        assert not waits(harness)
        harness.pass_time(seconds=WITHDRAWALS.lease.total_seconds() + 1)
        withdrawn(harness)
        assert written not in harness.fake_github.world.rulesets

    def test_unrecorded_removal_is_recorded_by_the_next_worker(
        self, harness: Harness, written: int, owner: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone(harness)
        with monkeypatch.context() as patched:
            patched.setattr(ruleset_removal, "save_ruleset", _die)
            with pytest.raises(SystemExit):
                withdraw_due(harness.jobs, harness.github)
        assert written not in harness.fake_github.world.rulesets
        harness.pass_time(seconds=WITHDRAWALS.lease.total_seconds() + 1)
        withdrawn(harness)
        assert harness.sql("SELECT ruleset_id FROM written_rulesets") == []
        assert mails(harness) == []

    def test_worker_that_lost_its_lease_sends_no_mail(
        self, harness: Harness, written: int, owner: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone(harness)
        harness.fake_github.faults.add("error", DELETING, status=403, message="Not allowed")
        original = ruleset_removal._carry_out

        def slow(*arguments: Any) -> Any:
            harness.sql("UPDATE withdrawals SET lease_token = 'other', lease_until = now() + interval '1 hour'")
            return original(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(ruleset_removal, "_carry_out", slow)
            withdraw_due(harness.jobs, harness.github)
        assert mails(harness) == []

    def test_ruleset_removal_waits_until_running_setups_must_have_ended(self, harness: Harness, written: int) -> None:
        assert SETUPS.lease <= WITHDRAWAL_DELAY
        assert timedelta(seconds=MAX_WRITING_SECONDS + harness.github.settings.deadline_seconds) < WITHDRAWAL_DELAY
        leave(harness)
        assert not waits(harness)
        assert not withdraw_due(harness.jobs, harness.github)
        harness.pass_time(seconds=WITHDRAWAL_DELAY.total_seconds())
        assert waits(harness)

    @pytest.mark.parametrize("happened", [True, False])
    def test_ruleset_with_an_unrecorded_creation_is_removed(
        self, harness: Harness, build: Builder, *, happened: bool
    ) -> None:
        build("web")
        checks = [{"context": "change-freeze/main", "integration_id": harness.fake_github.app_id}]
        parameters = {
            "required_status_checks": checks,
            "strict_required_status_checks_policy": False,
            "do_not_enforce_on_create": True,
        }
        after = {**RULESET, "rules": [{"type": "required_status_checks", "parameters": parameters}]}
        before = set(harness.fake_github.world.rulesets)
        if happened:
            harness.person("POST", "/repos/acme/web/rulesets", after).raise_for_status()
        [(repository_id,)] = harness.sql("SELECT id FROM repositories")
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
        harness.sql(
            "INSERT INTO enforcement_setups (id, organization_id, scope, state, requested_by, created_at, progress) "
            "VALUES ('stp_1', :id, '{}', 'failed', '{}', now(), CAST(:progress AS jsonb))",
            id=harness.organization.id,
            progress=orjson.dumps({"writing": announced}).decode(),
        )
        harness.sql(  # before the App was installed again
            "INSERT INTO installations (id, organization_id, account, state, permissions, created_at) "
            "VALUES (1, :id, 'acme', 'removed', '{}', now() - interval '1 year')",
            id=harness.organization.id,
        )
        gone(harness)
        withdrawn(harness)
        assert set(harness.fake_github.world.rulesets) == before
        assert harness.sql("SELECT progress FROM enforcement_setups") == [({},)]
        assert "organization.rules_left" not in audit(harness)


def _die(*_: Any, **__: Any) -> Any:
    raise SystemExit


def test_withdrawal_without_rulesets_is_done_at_once(harness: Harness, owner: str) -> None:
    gone(harness)
    assert withdraw_due(harness.jobs, harness.github)
    assert not withdraw_due(harness.jobs, harness.github)
    assert mails(harness) == []
    assert audit(harness)[-1] == "organization.deleted"


@pytest.fixture
def sweeper(harness: Harness) -> Iterator[Sweeper]:
    """Make a sweeper that no worker helps."""
    context.set_context(Context(harness.jobs, harness.github, harness.reconciler, lambda _name: None))
    yield Sweeper(context.get_context(), lambda: False, timedelta(days=1000))
    background_thread.run_in_background("withdraw", lambda: False)[0].join(10)
    context._contexts.clear()


def test_sweeper_completes_the_deletion_without_workers(
    harness: Harness, written: int, owner: str, sweeper: Sweeper
) -> None:
    work(harness)
    harness.freeze()
    harness.run_until_idle()
    gone(harness)
    sweeper.sweep()
    background_thread.run_in_background("withdraw", lambda: False)[0].join(10)
    assert written not in harness.fake_github.world.rulesets
    assert set(harness.conclusions().values()) == {"success"}
    harness.pass_time(days=30)
    sweeper.sweep()
    assert harness.sql("SELECT purged_at IS NOT NULL, name FROM organizations") == [(True, "")]
    assert harness.sql("SELECT count(*) FROM freezes") == [(0,)]


def test_deletion_fails_when_the_audit_cannot_be_written(harness: Harness, written: int) -> None:
    harness.sql("REVOKE INSERT ON audit_entries FROM change_freeze_app")
    try:
        with pytest.raises(sqlalchemy.exc.ProgrammingError):
            leave(harness)
    finally:
        harness.sql("GRANT INSERT ON audit_entries TO change_freeze_app")
    assert harness.sql("SELECT deleted_at FROM organizations") == [(None,)]
    assert harness.sql("SELECT count(*) FROM withdrawals") == [(0,)]
    assert harness.sql("SELECT count(*) FROM mails") == [(0,)]
