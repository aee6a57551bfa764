"""Making a schedule, and how many an organisation may have.

Which windows are planned is asked in `tests/services/schedules`.
"""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models.repositories import WatchedBranch
from models.schedules import Occurrence, Schedule
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.schedules.requests import (
    DAILY,
    EVERYTHING,
    FIELDS,
    FIRST,
    REASON,
    SOON,
    created,
    details,
    rows,
    starts,
)
from tests.harness.concurrency import at_once


def test_schedule_wholly_in_the_past_is_over(acme: Tenant) -> None:
    once = {"frequency": "once", "startDate": "2026-01-01"}
    made = created(acme.key(), recurrence=once)
    assert (made["over"], made["nextOccurrence"]) == (True, None)
    assert acme.key().get(f"/v1/schedules/{made['id']}").json()["over"] is True
    again = acme.key().patch(f"/v1/schedules/{made['id']}", {"recurrence": DAILY, "enabled": False}).json()
    assert (again["over"], again["nextOccurrence"]) == (False, None)
    once_far = {"frequency": "once", "startDate": (SOON + timedelta(days=365)).isoformat()}
    assert created(acme.key(), recurrence=once_far, allowOverlap=True)["over"] is False


class TestCreateSchedule:
    def test_create_schedule_plans_its_windows_and_shows_the_next(self, acme: Tenant, session: Session) -> None:
        shown = created(acme.person("member"))
        assert set(shown) == FIELDS
        assert {name: shown[name] for name in FIRST} == FIRST
        assert (shown["source"], shown["enabled"], shown["exceptionsAllowed"], shown["allowOverlap"]) == (
            "manual",
            True,
            True,
            False,
        )
        assert shown["createdBy"]["type"] == "user"
        coming = shown["nextOccurrence"]
        assert (coming["startsAt"], coming["endsAt"], coming["state"]) == (
            starts(SOON, 22),
            starts(SOON + timedelta(days=1), 6),
            "planned",
        )
        assert (coming["late"], coming["missed"], coming["freezeId"], coming["skipReason"]) == (
            False,
            False,
            None,
            None,
        )
        assert session.scalar(select(func.count()).select_from(Occurrence)) in {88, 89}

    def test_create_schedule_returns_its_location(self, acme: Tenant) -> None:
        answer = acme.key().post("/v1/schedules", FIRST)
        assert acme.key().get(answer.headers["location"]).json() == answer.json()

    def test_schedule_without_timezone_uses_that_of_the_organization(self, acme: Tenant, session: Session) -> None:
        acme.organization.settings = {"timezone": "Asia/Kolkata"}
        session.flush()
        zoneless = {name: value for name, value in FIRST.items() if name != "timezone"}
        shown = acme.key().post("/v1/schedules", zoneless).json()
        assert shown["timezone"] == "Asia/Kolkata"
        assert shown["nextOccurrence"]["startsAt"] == f"{SOON.isoformat()}T16:30:00Z"

    def test_create_schedule_trims_its_reason(self, acme: Tenant) -> None:
        assert created(acme.key(), reason=f"  {REASON} ")["reason"] == REASON

    def test_create_schedule_is_audited_with_its_fields(self, acme: Tenant, session: Session) -> None:
        shown = created(acme.key())
        assert acme.audit() == ["schedule.created"]
        after = details(session, "schedule.created")["after"]
        assert {name: after[name] for name in FIRST} == {name: shown[name] for name in FIRST}

    def test_create_schedule_is_refused_with_the_overlapping_schedules(self, acme: Tenant, session: Session) -> None:
        other = created(acme.key(), name="Evenings", window={"startTime": "20:00", "endTime": "23:00"})
        error = refusal(acme.key().post("/v1/schedules", FIRST), 409, "schedule_overlap")
        [row] = error["details"]
        assert (row["path"], row["scheduleId"], row["scheduleName"]) == ("/window", other["id"], "Evenings")
        assert row["firstOverlapAt"] == starts(SOON, 22)
        assert session.scalar(select(func.count()).select_from(Schedule)) == 1
        assert created(acme.key(), allowOverlap=True)["allowOverlap"] is True

    def test_disabled_schedule_may_overlap(self, acme: Tenant) -> None:
        created(acme.key())
        created(acme.key(), enabled=False)

    def test_concurrent_overlapping_schedules_are_created_once(self, acme: Tenant) -> None:
        key = acme.key()
        answers = at_once(*[lambda: key.post("/v1/schedules", FIRST)] * 4)
        assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]

    @pytest.mark.parametrize("scope", [EVERYTHING, {"type": "glob", "patterns": ["acme/*"]}])
    def test_create_schedule_refuses_a_scope_without_targets(
        self, acme: Tenant, session: Session, web: WatchedBranch, scope: Any
    ) -> None:
        web.unwatched_at = factories.now()
        session.flush()
        error = refusal(acme.key().post("/v1/schedules", {**FIRST, "scope": scope}), 422, "no_targets_in_scope")
        assert rows(error) == [("/scope", "no_targets_in_scope")]


class TestScheduleQuota:
    def full(self, globex: Tenant, session: Session) -> None:
        factories.branch(session, globex.repository("app"))
        for _ in range(3):
            factories.schedule(session, globex.organization)

    def test_schedule_quota_error_names_limit_and_usage(self, globex: Tenant, session: Session) -> None:
        self.full(globex, session)
        error = refusal(globex.key().post("/v1/schedules", FIRST), 403, "feature_not_available")
        assert "free plan includes 3 schedules. You have 3" in error["message"]
        assert session.scalar(select(func.count()).select_from(Schedule)) == 3

    def test_schedule_quota_counts_disabled_but_not_deleted_schedules(self, globex: Tenant, session: Session) -> None:
        self.full(globex, session)
        one, two, _ = session.scalars(select(Schedule))
        one.enabled = False
        session.flush()
        refusal(globex.key().post("/v1/schedules", FIRST), 403, "feature_not_available")
        two.deleted_at = factories.now()
        session.flush()
        assert globex.key().post("/v1/schedules", FIRST).status_code == 201

    def test_schedule_quota_holds_for_concurrent_creations(self, globex: Tenant, session: Session) -> None:
        factories.branch(session, globex.repository("app"))
        key, body = globex.key(), {**FIRST, "allowOverlap": True}
        answers = at_once(*[lambda: key.post("/v1/schedules", body)] * 5)
        assert sorted(answer.status_code for answer in answers) == [201, 201, 201, 403, 403]

    def test_schedules_beyond_the_quota_can_be_changed_and_deleted(self, globex: Tenant, session: Session) -> None:
        self.full(globex, session)
        one = factories.schedule(session, globex.organization)
        assert globex.key().patch(f"/v1/schedules/{one.id}", {"name": "More"}).status_code == 200
        assert globex.key().delete(f"/v1/schedules/{one.id}").status_code == 204
