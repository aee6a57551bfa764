"""What is common to all that looks ahead, and previews of drafts and of schedules."""

from collections.abc import Callable

import httpx
import pytest
from sqlalchemy.orm import Session

from models.schedules import Occurrence, Schedule
from tests import factories
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.schedules.preview_requests import DAY, DRAFT, listed, preview
from tests.handlers.schedules.requests import DAILY, FIRST, NIGHT, NOON, SOON, UNKNOWN, created, rows, starts
from tests.harness.clock import MovableClock

CALLS: dict[str, Callable[[Caller, str], httpx.Response]] = {
    "preview_schedule_draft": lambda caller, _: caller.post("/v1/schedules/preview", DRAFT),
    "preview_schedule": lambda caller, one: caller.get(f"/v1/schedules/{one}/preview"),
    "list_occurrences": lambda caller, one: caller.get("/v1/schedules/occurrences", scheduleId=one),
    "get_schedule_calendar": lambda caller, one: caller.get("/v1/schedules/calendar", month="2026-12", scheduleId=one),
}
every_operation = pytest.mark.parametrize("operation", CALLS)


class TestEveryOperation:
    @every_operation
    def test_preview_changes_nothing(self, acme: Tenant, session: Session, operation: str) -> None:
        schedule = factories.schedule(session, acme.organization)
        assert CALLS[operation](acme.key(), schedule.id).status_code == 200
        assert (acme.audit(), session.query(Schedule).count(), session.query(Occurrence).count()) == ([], 1, 0)

    @every_operation
    def test_preview_works_after_an_uninstallation(self, acme: Tenant, session: Session, operation: str) -> None:
        schedule = factories.schedule(session, acme.organization)
        acme.installation.state = "removed"
        session.flush()
        assert CALLS[operation](acme.key(), schedule.id).status_code == 200


class TestPreviewScheduleDraft:
    def test_draft_preview_shows_windows_in_utc_and_local_time(self, acme: Tenant) -> None:
        shown = preview(acme.key(), timezone="Asia/Kolkata", limit=2)
        assert shown["timezone"] == "Asia/Kolkata"
        first, second = shown["occurrences"]
        assert first == {
            "id": None,
            "startsAt": f"{SOON}T16:30:00Z",
            "endsAt": f"{SOON + DAY}T00:30:00Z",
            "localStart": f"{SOON}T22:00:00",
            "localEnd": f"{SOON + DAY}T06:00:00",
            "state": "planned",
            "skipReason": None,
        }
        assert second["startsAt"] == f"{SOON + DAY}T16:30:00Z"

    def test_draft_preview_shows_ten_windows_by_default(self, acme: Tenant) -> None:
        assert len(preview(acme.key())["occurrences"]) == 10
        assert len(preview(acme.key(), limit=100)["occurrences"]) == 100

    def test_draft_preview_without_timezone_uses_that_of_the_organization(self, acme: Tenant, session: Session) -> None:
        acme.organization.settings = {"timezone": "Asia/Kolkata"}
        session.flush()
        answer = acme.key().post("/v1/schedules/preview", {"recurrence": DAILY, "window": NIGHT})
        assert answer.json()["timezone"] == "Asia/Kolkata"

    def test_draft_preview_shows_a_nonexistent_local_time_as_skipped(self, acme: Tenant) -> None:
        gap = {"frequency": "once", "startDate": "2028-03-12"}
        window = {"startTime": "02:10", "endTime": "02:40"}
        [shown] = preview(acme.key(), timezone="America/New_York", recurrence=gap, window=window)["occurrences"]
        assert (shown["state"], shown["skipReason"], shown["startsAt"]) == (
            "skipped",
            "no_such_time",
            "2028-03-12T07:00:00Z",
        )

    def test_draft_preview_shows_the_window_open_now(self, acme: Tenant, session: Session, clock: MovableClock) -> None:
        today = factories.now().date()
        always = {"startTime": "00:00", "endTime": "00:00", "days": 2}
        shown = preview(acme.key(), recurrence={"frequency": "once", "startDate": today.isoformat()}, window=always)
        assert [row["startsAt"] for row in shown["occurrences"]] == [starts(today, 0)]

    def test_draft_preview_names_overlapping_schedules(self, acme: Tenant) -> None:
        evenings = {"startTime": "20:00", "endTime": "23:00"}
        one = created(acme.key(), name="Evenings", window=evenings)
        other = created(acme.key(), name="Late", window={"startTime": "23:00", "endTime": "23:30"}, allowOverlap=True)
        created(acme.key(), name="Noon", window=NOON)
        shown = preview(acme.key(), scope={"type": "organization"})
        assert shown["overlaps"] == [
            {"scheduleId": one["id"], "scheduleName": "Evenings", "firstOverlapAt": starts(SOON, 22), "allowed": False},
            {"scheduleId": other["id"], "scheduleName": "Late", "firstOverlapAt": starts(SOON, 23), "allowed": True},
        ]
        assert (shown["overlapCount"], shown["branchCount"]) == (2, 1)

    def test_draft_preview_without_scope_reports_no_overlaps(self, acme: Tenant) -> None:
        created(acme.key())
        shown = preview(acme.key())
        assert (shown["overlaps"], shown["overlapCount"], shown["branchCount"]) == ([], 0, None)

    def test_draft_preview_ignores_the_schedule_to_be_changed(self, acme: Tenant) -> None:
        saved = created(acme.key())
        assert preview(acme.key(), scope={"type": "organization"}, scheduleId=saved["id"])["overlaps"] == []
        assert preview(acme.key(), scope={"type": "organization"})["overlapCount"] == 1

    def test_draft_preview_accepts_the_body_of_a_creation(self, acme: Tenant) -> None:
        body = {**FIRST, "exceptionsAllowed": False, "enabled": False, "allowOverlap": True, "reason": ""}
        assert acme.key().post("/v1/schedules/preview", body).status_code == 200

    def test_draft_preview_reports_all_errors_at_once(self, acme: Tenant) -> None:
        wrong = {**DRAFT, "scheduleId": UNKNOWN, "timezone": "Mars/Olympus", "window": {**NOON, "endTime": "12:00"}}
        error = refusal(acme.key().post("/v1/schedules/preview", wrong), 422, "invalid_parameter")
        assert [path for path, _ in rows(error)] == ["/scheduleId", "/timezone", "/window/endTime"]


class TestPreviewSchedule:
    def test_schedule_preview_shows_ids_of_windows_of_two_years(self, acme: Tenant) -> None:
        saved = created(acme.key(), recurrence={**DAILY, "frequency": "yearly"})
        shown = acme.key().get(f"/v1/schedules/{saved['id']}/preview", limit=5).json()["occurrences"]
        assert shown[0]["id"] == saved["nextOccurrence"]["id"]
        assert [row["id"] is None for row in shown] == [False, False, True, True, True]
        days = {"to": shown[2]["startsAt"], "scheduleId": saved["id"]}
        assert listed(acme.key(), **days) == [row["id"] for row in shown[:2]]

    def test_schedule_preview_shows_no_ids_of_a_disabled_schedule(self, acme: Tenant) -> None:
        saved = created(acme.key(), enabled=False)
        shown = acme.key().get(f"/v1/schedules/{saved['id']}/preview").json()["occurrences"]
        assert [row["id"] for row in shown] == [None] * 10

    def test_schedule_preview_shows_skipped_windows(self, acme: Tenant) -> None:
        saved = created(acme.key())
        acme.key().post(f"/v1/schedules/{saved['id']}/skip-next")
        first, second = acme.key().get(f"/v1/schedules/{saved['id']}/preview", limit=2).json()["occurrences"]
        assert (first["state"], first["skipReason"], second["state"]) == ("skipped", "asked", "planned")

    @pytest.mark.parametrize("enabled", [True, False])
    def test_schedule_preview_omits_windows_ended_by_hand(self, acme: Tenant, *, enabled: bool) -> None:
        made = created(acme.key())
        saved = made["id"]
        for body in ({"action": "apply", "endsAt": made["nextOccurrence"]["endsAt"]}, {"action": "lift"}):
            assert acme.person("member").post(f"/v1/schedules/{saved}/run-now", body).is_success
        acme.key().patch(f"/v1/schedules/{saved}", {"enabled": enabled})
        shown = acme.key().get(f"/v1/schedules/{saved}/preview", limit=100).json()["occurrences"]
        assert [row["startsAt"] for row in shown] == [starts(SOON + (1 + day) * DAY, 22) for day in range(100)]

    def test_schedule_preview_names_overlaps_except_itself(self, acme: Tenant) -> None:
        saved = created(acme.key())
        other = created(acme.key(), name="Everything", allowOverlap=True)
        shown = acme.key().get(f"/v1/schedules/{saved['id']}/preview").json()
        assert [row["scheduleId"] for row in shown["overlaps"]] == [other["id"]]
        assert (shown["overlapCount"], shown["branchCount"]) == (1, 1)

    def test_schedule_preview_ignores_missing_repositories_of_the_scope(self, acme: Tenant, session: Session) -> None:
        scope = {"type": "repositories", "repositories": ["acme/gone"]}
        schedule = factories.schedule(session, acme.organization, scope=scope)
        assert acme.key().get(f"/v1/schedules/{schedule.id}/preview").json()["branchCount"] == 0
