"""Each window starts once when it is due, with any number of sweepers, on the branches of its scope that exist."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, text

from models.schedules import Occurrence, Schedule
from rules.freezes.limits import FreezeLimits
from rules.ids import new_id
from services.core.ports import Ports
from services.freezes.completion import mark_complete
from services.freezes.end import lift
from services.maintenance.tasks import cover_remaining, seconds_to_next
from services.schedules.missed_windows import record_missed
from tests import factories
from tests.harness.concurrency import at_once
from tests.harness.wakeups import RecordedWakeups
from tests.services.schedules.windows import HOUR, Planned


class TestDueWindow:
    def test_due_window_starts_a_freeze_until_its_end(self, planned: Planned, wakeups: RecordedWakeups) -> None:
        planned.come()
        assert planned.begin() == 1
        [freeze] = planned.freezes()
        schedule, occurrence = planned.schedule, planned.occurrence
        assert (freeze.source, freeze.schedule_id, freeze.occurrence_id) == ("schedule", schedule.id, occurrence.id)
        assert (freeze.reason, freeze.ends_at) == (schedule.reason, occurrence.ends_at)
        assert freeze.started_at == occurrence.starts_at
        assert freeze.created_by == {"type": "schedule", "id": schedule.id, "name": "Weekends"}
        assert planned.frozen(planned.web, planned.api) == [True, True]
        assert "reconcile" in wakeups.sent

    def test_window_begins_when_another_cannot(self, planned: Planned) -> None:
        broken = planned.add_schedule(scope={"type": "glob", "patterns": ["["]})
        planned.add(broken, -timedelta(minutes=5))
        planned.come()
        assert planned.begin() == 1
        assert planned.seen()["state"] == "active"

    def test_windows_begin_in_the_order_of_their_starts(self, planned: Planned) -> None:
        earlier = planned.add(planned.add_schedule(name="Nights"), -timedelta(minutes=5), timedelta(hours=3))
        planned.come()
        assert planned.begin() == 2
        begun = [entry.details["occurrenceId"] for entry in planned.audit("freeze.started")]
        assert begun == [earlier.id, planned.occurrence.id]

    def test_window_of_a_disabled_or_deleted_schedule_does_not_begin(self, planned: Planned) -> None:
        planned.add(planned.add_schedule(deleted_at=planned.saved_at))
        planned.change(enabled=False)
        planned.come()
        assert planned.begin() == 0
        assert planned.freezes() == []
        assert planned.session.scalars(select(Occurrence.id)).all() == []

    def test_window_of_a_deleted_organization_does_not_begin(self, planned: Planned) -> None:
        planned.acme.deleted_at = planned.saved_at
        planned.session.commit()
        planned.come()
        assert planned.begin() == 0
        planned.come(HOUR)
        assert record_missed(planned.jobs) == 0


class TestScopeWithoutTargets:
    def test_removed_repository_is_left_out_of_the_begun_window(self, planned: Planned) -> None:
        planned.change(scope={"type": "repositories", "repositories": ["acme/web", "acme/gone", new_id("rep")]})
        planned.come()
        assert planned.begin() == 1
        assert planned.frozen(planned.web, planned.api) == [True, False]

    @pytest.mark.parametrize(
        "scope",
        [
            {"type": "repositories", "repositories": ["acme/gone"]},
            {"type": "branch", "repository": "acme/gone", "branch": "main"},
            {"type": "branch", "repository": "acme/web", "branch": "unwatched"},
            {"type": "branch", "branchId": new_id("wbr")},
        ],
        ids=["repository", "its branch", "unwatched", "branch by id"],
    )
    def test_window_without_targets_is_skipped(self, planned: Planned, scope: dict[str, Any]) -> None:
        planned.change(scope=scope)
        planned.come()
        assert planned.begin() == 0
        seen = planned.seen()
        assert (seen["state"], seen["skip_reason"]) == ("skipped", "no_targets")
        [entry] = planned.audit("occurrence.skipped")
        assert entry.details["after"]["skipReason"] == "no_targets"
        [(kind, message)] = planned.attention()
        assert kind == "window_without_targets"
        assert "covers no watched branch" in message
        assert planned.freezes() == []

    def test_alert_of_a_skipped_window_is_resolved_by_a_later_window(self, planned: Planned) -> None:
        planned.add(planned.schedule, 2 * HOUR)
        planned.change(scope={"type": "repositories", "repositories": ["acme/later"]})
        planned.come()
        planned.begin()
        factories.watched(planned.session, planned.acme, "acme/later")
        planned.session.commit()
        planned.come(2 * HOUR)
        assert planned.begin() == 1
        assert planned.attention() == []

    def test_growing_scope_without_targets_begins(self, planned: Planned) -> None:
        planned.change(scope={"type": "glob", "patterns": ["other/*"]})
        planned.come()
        assert planned.begin() == 1
        [freeze] = planned.freezes()
        assert planned.covered(freeze) == set()
        assert planned.seen()["state"] == "active"


class TestManyBranches:
    @pytest.fixture
    def few_at_once(self, planned: Planned) -> int:
        for number in range(3):
            factories.watched(planned.session, planned.acme, f"acme/more-{number}")
        planned.session.commit()
        planned.jobs.ports = Ports(FreezeLimits(2))
        return 5

    def test_many_branches_are_covered_in_batches(self, planned: Planned, few_at_once: int) -> None:
        planned.come()
        planned.begin()
        [freeze] = planned.freezes()
        assert (len(planned.covered(freeze)), freeze.targets_pending) == (2, True)
        cover_remaining(planned.jobs)
        [freeze] = planned.freezes()
        assert (len(planned.covered(freeze)), freeze.targets_pending) == (few_at_once, False)
        assert [entry.details["targets"] for entry in planned.audit("freeze.grew")] == [2, 1]

    def test_freeze_has_no_receipt_before_all_branches_are_covered(self, planned: Planned, few_at_once: int) -> None:
        planned.come()
        planned.begin()
        [freeze] = planned.freezes()
        planned.session.execute(text("UPDATE freeze_targets SET state = 'applied'"))
        planned.session.commit()
        with planned.unit_of(planned.acme) as uow:
            mark_complete(uow, [freeze.id])
        [freeze] = planned.freezes()
        assert freeze.enforced_at is None

    def test_remaining_branches_are_not_covered_when_the_freeze_ends(self, planned: Planned, few_at_once: int) -> None:
        planned.come()
        planned.begin()
        [freeze] = planned.freezes()
        with planned.unit_of(planned.acme) as uow:
            lift(uow, freeze.id, None)
        cover_remaining(planned.jobs)
        [freeze] = planned.freezes()
        assert (len(planned.covered(freeze)), freeze.targets_pending) == (2, False)


class TestSeveralSweepers:
    def test_concurrent_sweepers_record_each_missed_window_once(self, planned: Planned) -> None:
        for number in range(1, 10):
            planned.add(planned.schedule, -number * HOUR, timedelta(minutes=30))
        planned.come(HOUR)
        recorded = sum(at_once(*[lambda: record_missed(planned.jobs)] * 3))
        recorded += record_missed(planned.jobs)
        assert recorded == len(planned.audit("occurrence.missed")) == 10

    def test_sweeper_skips_a_locked_schedule_and_retries(self, planned: Planned) -> None:
        planned.come()
        planned.session.execute(select(Schedule.id).with_for_update(key_share=True))
        assert planned.begin() == 0
        planned.session.commit()
        assert planned.begin() == 1


class TestNextInstant:
    def test_next_instant_is_never_in_the_past(self, planned: Planned) -> None:
        planned.come(timedelta(minutes=1))
        assert seconds_to_next(planned.jobs) is None
