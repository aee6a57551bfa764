"""What the audit says of the progress of a freeze: enforced, unprotected, or failing, each once."""

import logging
from typing import Any

import pytest

from services.core.unit_of_work import SYSTEM_CALLER
from services.freezes import targets
from services.freezes.completion import record_enforcement
from services.maintenance.tasks import repair_completions
from tests.harness.concurrency import at_once
from tests.harness.github_harness import Builder, Harness


def audited(harness: Harness, *actions: str) -> list[Any]:
    """Return action, target and details of the entries with these actions, in the order of their writing."""
    listed = ", ".join(f"'{action}'" for action in actions)
    return harness.sql(
        f"SELECT action, target ->> 'id', details FROM audit_entries WHERE action IN ({listed}) ORDER BY at, id"
    )


class TestEnforced:
    def test_enforced_freeze_is_recorded_once_when_recorders_race(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.run_until_idle()
        harness.read_rules()
        freeze_id = harness.freeze()
        harness.sql("UPDATE head_checks SET conclusion = 'failure', unconfirmed = false")

        def record() -> None:
            with harness.jobs.open(SYSTEM_CALLER) as uow:
                record_enforcement(uow, [freeze_id])

        at_once(record, record, record)
        assert [target for _, target, _ in audited(harness, "freeze.enforced")] == [freeze_id]

    def test_freeze_that_ends_before_it_is_enforced_is_never_enforced(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.run_until_idle()
        harness.read_rules()
        harness.lift(harness.freeze())
        harness.run_until_idle()
        harness.review_enforcement()
        assert audited(harness, "freeze.enforced") == []

    def test_freeze_is_not_enforced_while_branches_are_left_to_add(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.read_rules()
        harness.freeze()
        harness.sql("UPDATE freezes SET targets_pending = true")
        harness.run_until_idle()
        harness.review_enforcement()
        assert harness.sql("SELECT enforced_at FROM freezes") == [(None,)]
        assert audited(harness, "freeze.enforced", "freeze.unprotected") == []

    def test_freeze_is_enforced_when_the_rules_were_read_after_its_checks(
        self, harness: Harness, build: Builder
    ) -> None:
        build("web", pulls=1)
        freeze_id = harness.freeze()
        harness.run_until_idle()
        assert audited(harness, "freeze.enforced", "freeze.unprotected") == []
        harness.read_rules()
        assert [target for _, target, _ in audited(harness, "freeze.enforced")] == [freeze_id]


class TestUnprotected:
    def test_freeze_is_reported_as_late_once_when_its_checks_wait(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.run_until_idle()
        harness.read_rules()
        freeze_id = harness.freeze()
        harness.review_enforcement()
        assert audited(harness, "freeze.unprotected") == []
        harness.sql("UPDATE checks SET outdated_since = outdated_since - interval '65 seconds'")
        harness.sql("UPDATE installations SET paused_until = clock_timestamp() + interval '30 seconds'")
        harness.review_enforcement()
        harness.review_enforcement()
        [(_, target, details)] = audited(harness, "freeze.unprotected")
        assert (target, details["causes"], details["late"]) == (freeze_id, ["late"], 1)
        assert details["gaps"] == {"rate_limit": 1}

    def test_freeze_that_is_not_known_to_block_any_more_is_reported_once(
        self, harness: Harness, build: Builder
    ) -> None:
        build("web", pulls=1)
        harness.read_rules()
        freeze_id = harness.freeze()
        harness.run_until_idle()
        older = "UPDATE branch_enforcement SET rules_read_at = rules_read_at - interval '{}'"
        for minutes in (11, 18):
            harness.sql(older.format(f"{minutes} minutes"))
            harness.review_enforcement()
        assert audited(harness, "freeze.unprotected") == []
        harness.sql(older.format("2 minutes"))
        for _ in range(2):
            harness.review_enforcement()
        [(_, target, details)] = audited(harness, "freeze.unprotected")
        assert (target, details["causes"], details["unknown"]) == (freeze_id, ["outdated"], 1)
        assert harness.sql("SELECT enforced_at FROM freezes") == [(None,)]
        harness.read_rules()
        found = [action for action, _, _ in audited(harness, "freeze.enforced", "freeze.unprotected")]
        assert found == ["freeze.enforced", "freeze.unprotected", "freeze.enforced"]

    def test_rules_of_frozen_branches_are_read_again_without_a_full_resync(
        self, harness: Harness, build: Builder
    ) -> None:
        build("web", "api", pulls=1)
        harness.read_rules()
        harness.freeze({"type": "repositories", "repositories": ["acme/web"]})
        harness.sql("UPDATE branch_enforcement SET rules_read_at = rules_read_at - interval '9 minutes'")
        harness.review_enforcement()
        assert harness.sql("SELECT count(due_at) FROM branch_enforcement") == [(0,)]
        harness.sql("UPDATE branch_enforcement SET rules_read_at = rules_read_at - interval '2 minutes'")
        harness.review_enforcement()
        due = harness.sql("SELECT branch_id FROM branch_enforcement WHERE due_at IS NOT NULL")
        assert due == [(harness.branches["acme/web"].id,)]

    def test_second_cause_is_reported_without_the_first(self, harness: Harness, build: Builder) -> None:
        build("web", "api", pulls=1)
        remove_rules(harness)
        harness.run_until_idle()
        harness.read_rules()
        harness.freeze()
        harness.review_enforcement()
        harness.sql("UPDATE checks SET outdated_since = outdated_since - interval '65 seconds'")
        harness.review_enforcement()
        found = audited(harness, "freeze.unprotected")
        assert [details["causes"] for _, _, details in found] == [["no_rule"], ["late"]]

    def test_freeze_from_before_an_upgrade_is_enforced_in_silence(self, harness: Harness, build: Builder) -> None:
        build("web", pulls=1)
        harness.read_rules()
        harness.freeze()
        harness.sql("UPDATE freezes SET unprotected_causes = NULL")
        harness.run_until_idle()
        assert harness.sql("SELECT enforced_at IS NOT NULL, unprotected_causes FROM freezes") == [(True, [])]
        assert audited(harness, "freeze.enforced", "freeze.unprotected") == []

    def test_freezes_from_before_an_upgrade_are_counted_again_in_silence(
        self, harness: Harness, build: Builder
    ) -> None:
        build("web", "api", pulls=1)
        remove_rules(harness)
        harness.run_until_idle()
        harness.read_rules()
        harness.freeze()
        harness.sql("UPDATE freezes SET enforced_at = started_at, first_enforced_at = started_at")
        harness.sql("UPDATE freezes SET unprotected_causes = NULL")
        harness.review_enforcement()
        harness.review_enforcement()
        assert harness.sql("SELECT enforced_at, unprotected_causes FROM freezes") == [(None, ["no_rule"])]
        assert audited(harness, "freeze.enforced", "freeze.unprotected") == []


def remove_rules(harness: Harness) -> list[dict[str, Any]]:
    """Remove the rulesets of acme/web at GitHub; return them as a person would write them."""
    listed = harness.person("GET", "/repos/acme/web/rulesets").json()
    whole = [harness.person("GET", f"/repos/acme/web/rulesets/{each['id']}").json() for each in listed]
    for each in listed:
        harness.person("DELETE", f"/repos/acme/web/rulesets/{each['id']}")
    return [{name: body[name] for name in ("name", "target", "enforcement", "conditions", "rules")} for body in whole]


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
        with harness.unit() as uow:
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


def test_each_freeze_has_a_log_line_of_what_was_written(
    harness: Harness, build: Builder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "services.freezes.completion")
    build("web", "api", pulls=3)
    harness.run_until_idle()
    harness.read_rules()
    freeze_id = harness.freeze()
    harness.run_until_idle()
    harness.full_resync()
    harness.run_until_idle()
    harness.lift(freeze_id)
    harness.run_until_idle()
    lines = [vars(record) for record in caplog.records if record.getMessage() == "freeze"]
    assert [(line["freeze"], line["state"], line["branches"], line["heads"]) for line in lines] == [
        (freeze_id, "enforced", 2, 6),
        (freeze_id, "released", 2, 6),
    ]
    assert {line["organization"] for line in lines} == {harness.organization.id}
    assert all(0 <= line["milliseconds"] < 120_000 for line in lines)
