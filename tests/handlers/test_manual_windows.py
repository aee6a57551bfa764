"""Ending and beginning windows by hand: `thaw_override_freeze` and `run_schedule_now`."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy.orm import Session

from app.database import WORKER_ROLE
from models.freezes import Freeze
from models.repositories import WatchedBranch
from models.schedules import Occurrence, Schedule
from rules.time.instants import format_instant
from services.core.ports import Ports
from services.core.unit_of_work import UnitOfWorkFactory
from services.maintenance.tasks import end_freezes
from services.schedules.occurrence_start import start_windows
from tests import factories
from tests.handlers.callers import Tenant, answered, refusal
from tests.harness.clock import MovableClock
from tests.harness.engines import engine_of
from tests.harness.wakeups import RecordedWakeups

REASON = "The release was moved to this weekend"


@pytest.fixture
def schedule(acme: Tenant, web: WatchedBranch) -> Schedule:
    return factories.schedule(acme.session, acme.organization)


@pytest.fixture
def coming(session: Session, schedule: Schedule) -> Occurrence:
    """Return the schedule's next window: tomorrow, for an hour."""
    return factories.occurrence(session, schedule)


def has_started(acme: Tenant, session: Session, schedule: Schedule, web: WatchedBranch, **columns: Any) -> Freeze:
    """Have a window of the schedule be in force, since a minute, for half an hour."""
    starts_at = factories.now() - timedelta(minutes=1)
    ends_at = starts_at + timedelta(minutes=30)
    occurrence = factories.occurrence(session, schedule, starts_at=starts_at, ends_at=ends_at, started_at=starts_at)
    given = {"source": "schedule", "schedule_id": schedule.id, "ends_at": occurrence.ends_at, **columns}
    freeze = factories.freeze(session, acme.organization, [web], occurrence_id=occurrence.id, **given)
    occurrence.freeze_id = freeze.id
    session.flush()
    return freeze


@pytest.fixture
def active(acme: Tenant, schedule: Schedule, web: WatchedBranch) -> Freeze:
    """Return the freeze of the schedule's window that is in force."""
    return has_started(acme, acme.session, schedule, web)


def test_freeze_of_a_window_has_the_public_text_of_its_schedule(
    acme: Tenant, schedule: Schedule, coming: Occurrence
) -> None:
    caller, address = acme.person("member"), f"/v1/schedules/{schedule.id}"
    assert caller.patch(address, {"publicText": " Merging is paused "}).json()["publicText"] == "Merging is paused"
    assert caller.post(f"{address}/run-now", {"action": "apply"}).status_code == 200
    [freeze] = caller.get("/v1/freezes").json()["data"]
    assert freeze["publicText"] == "Merging is paused"


def frozen(acme: Tenant) -> bool:
    return bool(acme.key().get("/v1/freeze-state", repo="acme/web", branch="main").json()["frozen"])


class TestThawOverrideFreeze:
    def override(self, acme: Tenant, freeze_id: str, body: Any) -> httpx.Response:
        return acme.key("freeze:write").post(f"/v1/freezes/{freeze_id}/thaw-override", body)

    def test_override_ends_the_freeze_with_a_reason(
        self, acme: Tenant, active: Freeze, wakeups: RecordedWakeups
    ) -> None:
        answer = self.override(acme, active.id, {"reason": f" {REASON} "})
        shown = answer.json()
        assert answer.status_code == 200, answer.text
        assert (shown["state"], shown["endReason"], shown["endedBy"]["type"]) == ("ended", "overridden", "api_key")
        assert shown["targets"]["releasing"] == 1
        assert set(wakeups.sent) == {"reconcile"}
        assert acme.audit() == ["freeze.overridden"]
        details = factories.audit_entries(acme.session)[0].details
        assert (details["reason"], details["scheduleId"]) == (REASON, active.schedule_id)
        assert frozen(acme) is False

    def test_override_leaves_other_freezes_in_force(self, acme: Tenant, web: WatchedBranch, active: Freeze) -> None:
        factories.freeze(acme.session, acme.organization, [web])
        self.override(acme, active.id, {"reason": REASON})
        assert frozen(acme) is True

    def test_override_leaves_the_next_window_planned(
        self, acme: Tenant, schedule: Schedule, active: Freeze, coming: Occurrence
    ) -> None:
        self.override(acme, active.id, {"reason": REASON})
        shown = acme.key().get(f"/v1/schedules/{schedule.id}").json()
        assert shown["nextOccurrence"]["id"] == coming.id

    def test_override_of_a_freeze_without_schedule_is_refused(self, acme: Tenant, web: WatchedBranch) -> None:
        freeze = factories.freeze(acme.session, acme.organization, [web])
        refusal(self.override(acme, freeze.id, {"reason": REASON}), 409, "invalid_state")
        assert frozen(acme) is True
        assert acme.audit() == []

    def test_override_of_an_ended_freeze_is_refused(self, acme: Tenant, active: Freeze, later: Any) -> None:
        later(minutes=40)
        refusal(self.override(acme, active.id, {"reason": REASON}), 409, "invalid_state")

    def test_override_of_a_freeze_that_ended_in_its_window_is_refused(self, acme: Tenant, active: Freeze) -> None:
        assert self.override(acme, active.id, {"reason": REASON}).status_code == 200
        refusal(self.override(acme, active.id, {"reason": REASON}), 409, "not_frozen")

    def test_override_of_a_freeze_extended_beyond_its_window_is_refused(
        self, acme: Tenant, active: Freeze, later: Any
    ) -> None:
        active.ends_at = None
        acme.session.flush()
        later(minutes=40)
        refusal(self.override(acme, active.id, {"reason": REASON}), 409, "invalid_state")
        assert frozen(acme) is True

    @pytest.mark.parametrize("body", [{}, {"reason": "short"}, {"reason": " padded   "}], ids=str)
    def test_override_requires_a_reason(self, acme: Tenant, active: Freeze, body: Any) -> None:
        error = refusal(self.override(acme, active.id, body), 422, "reason_required")
        assert [row["path"] for row in error["details"]] == ["/reason"]


class TestRunScheduleNow:
    def run(self, acme: Tenant, schedule_id: str, action: str, **body: Any) -> httpx.Response:
        return acme.person("member").post(f"/v1/schedules/{schedule_id}/run-now", {"action": action, **body})

    def test_run_now_applies_the_next_window_and_keeps_its_end(
        self, acme: Tenant, coming: Occurrence, wakeups: RecordedWakeups
    ) -> None:
        answer = self.run(acme, coming.schedule_id, "apply")
        shown = answer.json()
        assert answer.status_code == 200, answer.text
        assert (shown["id"], shown["state"], shown["late"]) == (coming.id, "active", False)
        assert frozen(acme) is True
        freeze = acme.key().get(f"/v1/freezes/{shown['freezeId']}").json()
        assert (freeze["source"], freeze["scheduleId"], freeze["occurrenceId"]) == (
            "schedule",
            coming.schedule_id,
            coming.id,
        )
        assert freeze["endsAt"] == shown["endsAt"]
        assert freeze["createdBy"]["type"] == "user"
        assert "reconcile" in wakeups.sent

    def test_run_now_requires_an_end_for_a_window_more_than_a_day_ahead(self, acme: Tenant, schedule: Schedule) -> None:
        starts_at = factories.now() + timedelta(hours=25)
        planned = factories.occurrence(
            acme.session, schedule, starts_at=starts_at, ends_at=starts_at + timedelta(hours=9)
        )
        error = refusal(self.run(acme, schedule.id, "apply"), 409, "invalid_state")
        assert "endsAt" in error["message"]
        assert frozen(acme) is False
        ends_at = format_instant(starts_at + timedelta(hours=2))
        shown = self.run(acme, schedule.id, "apply", endsAt=ends_at).json()
        assert (shown["id"], shown["state"], shown["endsAt"]) == (planned.id, "active", ends_at)
        assert acme.key().get(f"/v1/freezes/{shown['freezeId']}").json()["endsAt"] == ends_at
        assert acme.key().get(f"/v1/schedules/{schedule.id}").json()["nextOccurrence"] is None

    def test_run_now_that_ends_before_the_planned_window_leaves_it_planned(
        self, acme: Tenant, schedule: Schedule, later: Any
    ) -> None:
        starts_at = factories.now() + timedelta(days=30)
        planned = factories.occurrence(
            acme.session, schedule, starts_at=starts_at, ends_at=starts_at + timedelta(days=3)
        )
        ends_at = format_instant(factories.now() + timedelta(hours=2))
        shown = self.run(acme, schedule.id, "apply", endsAt=ends_at).json()
        assert (shown["state"], shown["endsAt"]) == ("active", ends_at)
        assert acme.key().get(f"/v1/freezes/{shown['freezeId']}").json()["endsAt"] == ends_at
        assert acme.key().get(f"/v1/schedules/{schedule.id}").json()["nextOccurrence"]["id"] == planned.id
        later(hours=2)
        assert frozen(acme) is False

    def test_run_now_rejects_an_end_in_the_past_or_of_a_lift(self, acme: Tenant, coming: Occurrence) -> None:
        for action, ends_at in (("apply", "2020-01-01T00:00:00Z"), ("lift", "2100-01-01T00:00:00Z")):
            error = refusal(self.run(acme, coming.schedule_id, action, endsAt=ends_at), 422, "invalid_parameter")
            assert [row["path"] for row in error["details"]] == ["/endsAt"]

    def test_run_now_is_audited_with_the_requesting_person(self, acme: Tenant, coming: Occurrence) -> None:
        self.run(acme, coming.schedule_id, "apply")
        [entry] = factories.audit_entries(acme.session)
        assert (entry.action, entry.actor["type"], entry.source) == ("freeze.started", "user", "dashboard")
        assert entry.details["occurrenceId"] == coming.id

    def test_run_now_does_not_apply_while_a_window_is_in_force(
        self, acme: Tenant, active: Freeze, coming: Occurrence
    ) -> None:
        error = refusal(self.run(acme, coming.schedule_id, "apply"), 409, "invalid_state")
        assert active.id in error["message"]

    def test_run_now_is_not_found_without_a_planned_window(self, acme: Tenant, schedule: Schedule) -> None:
        factories.occurrence(acme.session, schedule, skip_reason="asked")
        refusal(self.run(acme, schedule.id, "apply"), 404, "occurrence_not_found")

    def test_run_now_refuses_to_apply_to_a_scope_without_targets(
        self, acme: Tenant, schedule: Schedule, coming: Occurrence
    ) -> None:
        schedule.scope = {"type": "repositories", "repositories": ["acme/gone"]}
        acme.session.flush()
        refusal(self.run(acme, schedule.id, "apply"), 422, "no_targets_in_scope")
        assert acme.key().get(f"/v1/schedules/{schedule.id}").json()["nextOccurrence"]["id"] == coming.id

    def test_run_now_without_an_installation_only_lifts(self, acme: Tenant, active: Freeze, coming: Occurrence) -> None:
        acme.installation.state = "removed"
        acme.session.flush()
        assert self.run(acme, coming.schedule_id, "lift").status_code == 200
        refusal(self.run(acme, coming.schedule_id, "apply"), 409, "invalid_state")

    def test_run_now_lifts_the_freeze_in_force(self, acme: Tenant, schedule: Schedule, active: Freeze) -> None:
        answer = answered(self.run(acme, schedule.id, "lift"))
        assert (answer["state"], answer["freezeId"]) == ("past", active.id)
        assert frozen(acme) is False
        assert acme.key().get(f"/v1/freezes/{active.id}").json()["endReason"] == "lifted"
        assert acme.audit() == ["freeze.lifted"]

    def test_run_now_lifts_a_freeze_extended_beyond_its_window(
        self, acme: Tenant, schedule: Schedule, active: Freeze, web: WatchedBranch, later: Any
    ) -> None:
        active.ends_at = None
        acme.session.flush()
        later(minutes=40)
        assert self.run(acme, schedule.id, "lift").json()["freezeId"] == active.id
        assert frozen(acme) is False

    def test_run_now_does_not_lift_freezes_of_other_schedules(
        self, acme: Tenant, schedule: Schedule, active: Freeze, web: WatchedBranch
    ) -> None:
        has_started(acme, acme.session, factories.schedule(acme.session, acme.organization), web)
        self.run(acme, schedule.id, "lift")
        assert frozen(acme) is True

    def test_run_now_has_nothing_to_lift_outside_the_window(
        self, acme: Tenant, schedule: Schedule, coming: Occurrence, web: WatchedBranch, later: Any
    ) -> None:
        refusal(self.run(acme, schedule.id, "lift"), 409, "not_frozen")
        has_started(acme, acme.session, schedule, web)
        later(minutes=40)
        refusal(self.run(acme, schedule.id, "lift"), 409, "not_frozen")


class TestConsistentReads:
    @pytest.fixture
    def jobs(self, database: str, clock: MovableClock) -> UnitOfWorkFactory:
        """Units as a sweeper opens them."""
        return UnitOfWorkFactory(engine_of(database, WORKER_ROLE), clock, RecordedWakeups(), Ports())

    def reported(self, acme: Tenant, schedule: Schedule) -> tuple[Any, ...]:
        """Return freeze state, freezes, occurrences and the schedule."""
        key = acme.key()
        ends = {"from": -timedelta(days=1), "to": timedelta(days=1)}
        spans = {name: (factories.now() + away).isoformat() for name, away in ends.items()}
        freezes = key.get("/v1/freezes", scheduleId=schedule.id).json()["data"]
        listed = key.get("/v1/schedules/occurrences", scheduleId=schedule.id, **spans).json()["data"]
        coming = key.get(f"/v1/schedules/{schedule.id}").json()["nextOccurrence"]
        whole = key.get("/v1/freeze-state", organization="current").json()["coverage"]
        return frozen(acme), whole, [one["state"] for one in freezes], [one["state"] for one in listed], bool(coming)

    def test_reads_agree_before_during_and_after_a_window_recorded_or_not(
        self, acme: Tenant, web: WatchedBranch, jobs: UnitOfWorkFactory, clock: MovableClock
    ) -> None:
        schedule = factories.schedule(acme.session, acme.organization)
        start = factories.now() + timedelta(minutes=20)
        factories.occurrence(acme.session, schedule, starts_at=start, ends_at=start + timedelta(hours=1))
        before: tuple[Any, ...] = (False, "none", [], ["planned"], True)
        due = (True, "all", ["in_force"], ["planned"], True)
        within = (True, "all", ["in_force"], ["active"], False)
        after = (False, "none", ["ended"], ["past"], False)
        clock.at = start - timedelta(seconds=1)
        start_windows(jobs)
        assert self.reported(acme, schedule) == before
        clock.at = start
        assert self.reported(acme, schedule) == due
        start_windows(jobs)
        assert self.reported(acme, schedule) == within
        clock.at = start + timedelta(hours=1) - timedelta(milliseconds=1)
        assert self.reported(acme, schedule) == within
        clock.at = start + timedelta(hours=1)
        assert self.reported(acme, schedule) == after
        end_freezes(jobs)
        assert self.reported(acme, schedule) == after
