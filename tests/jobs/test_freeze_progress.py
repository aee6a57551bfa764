"""What the audit says of the progress of a freeze: enforced, late, or failing, each once."""

from typing import Any

from services.freezes import targets
from services.maintenance.tasks import repair_completions
from services.reconcile.late_freezes import record_late_freezes
from tests.harness.concurrency import at_once
from tests.harness.github_harness import Builder, Harness


def audited(harness: Harness, *actions: str) -> list[Any]:
    """Return action, target and details of the entries with these actions, in the order of their writing."""
    listed = ", ".join(f"'{action}'" for action in actions)
    return harness.sql(
        f"SELECT action, target ->> 'id', details FROM audit_entries WHERE action IN ({listed}) ORDER BY at, id"
    )


class TestEnforced:
    def test_freeze_is_recorded_as_enforced_once_all_branches_block(self, harness: Harness, build: Builder) -> None:
        build("web", "api", pulls=1)
        harness.run_until_idle()
        freeze_id = harness.freeze()
        assert audited(harness, "freeze.enforced") == []
        harness.run_until_idle()
        harness.full_resync()
        harness.run_until_idle()
        repair_completions(harness.jobs)
        [(_, target, details)] = audited(harness, "freeze.enforced")
        assert (target, details["targets"]) == (freeze_id, 2)
        [[actor, source]] = harness.sql(
            "SELECT actor ->> 'type', source FROM audit_entries WHERE action = 'freeze.enforced'"
        )
        assert (actor, source) == ("system", "system")

    def test_enforced_freeze_is_recorded_once_when_repairs_race(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.run_until_idle()
        freeze_id = harness.freeze()
        harness.sql("UPDATE freeze_targets SET state = 'applied'")
        at_once(*[lambda: repair_completions(harness.jobs)] * 3)
        assert [target for _, target, _ in audited(harness, "freeze.enforced")] == [freeze_id]

    def test_freeze_that_ends_before_it_is_enforced_is_never_enforced(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.run_until_idle()
        harness.lift(harness.freeze())
        harness.run_until_idle()
        repair_completions(harness.jobs)
        assert audited(harness, "freeze.enforced") == []


class TestFailing:
    def test_failure_of_several_branches_is_recorded_once_with_its_error(
        self, harness: Harness, build: Builder
    ) -> None:
        build("web", "api", pulls=1)
        harness.run_until_idle()
        freeze_id = harness.freeze()
        harness.fake_github.faults.add("error", "createCheckRun", status=500, count=4)
        for _attempt in range(2):
            harness.run_until_idle()
            harness.make_due()
        [(_, target, details)] = audited(harness, "freeze.target_failed")
        assert (target, details["operation"], details["error"]["code"]) == (freeze_id, "apply", "github_unavailable")
        assert details["targets"] == len(details["branches"])

    def test_failure_after_a_recovery_or_a_retry_is_recorded_again(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.run_until_idle()
        freeze_id = harness.freeze()
        harness.sql("UPDATE freeze_targets SET state = 'failed'")
        repair_completions(harness.jobs)
        harness.sql("UPDATE freeze_targets SET state = 'pending'")
        repair_completions(harness.jobs)
        harness.sql("UPDATE freeze_targets SET state = 'failed'")
        repair_completions(harness.jobs)
        with harness._unit() as uow:
            targets.retry(uow, freeze_id)
        harness.sql("UPDATE freeze_targets SET state = 'failed'")
        at_once(*[lambda: repair_completions(harness.jobs)] * 3)
        assert len(audited(harness, "freeze.target_failed")) == 3

    def test_release_that_fails_is_recorded_beside_the_failed_start(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.run_until_idle()
        freeze_id = harness.freeze()
        harness.sql("UPDATE freeze_targets SET state = 'failed'")
        repair_completions(harness.jobs)
        harness.lift(freeze_id)
        harness.sql("UPDATE freeze_targets SET state = 'failed'")
        repair_completions(harness.jobs)
        found = [details["operation"] for _, _, details in audited(harness, "freeze.target_failed")]
        assert found == ["apply", "release"]


class TestLate:
    def test_freeze_is_recorded_as_late_once(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.run_until_idle()
        freeze_id = harness.freeze()
        assert record_late_freezes(harness.jobs) == 0
        harness.sql("UPDATE freezes SET started_at = started_at - interval '65 seconds'")
        harness.sql("UPDATE watched_branches SET due_at = due_at - interval '65 seconds'")
        assert sum(at_once(*[lambda: record_late_freezes(harness.jobs)] * 3)) == 1
        assert record_late_freezes(harness.jobs) == 0
        [(_, target, details)] = audited(harness, "enforcement.late")
        assert (target, details["pendingTargets"]) == (freeze_id, 1)

    def test_freeze_that_waits_for_rate_limits_is_not_late(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.run_until_idle()
        harness.freeze()
        harness.sql("UPDATE freezes SET started_at = started_at - interval '65 seconds'")
        harness.sql("UPDATE watched_branches SET due_at = due_at - interval '65 seconds'")
        harness.sql("UPDATE installations SET paused_until = clock_timestamp() - interval '30 seconds'")
        assert record_late_freezes(harness.jobs) == 0
