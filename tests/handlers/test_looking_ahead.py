"""Operations of the tag Schedules that look ahead: previews, occurrences of a range of time, a month's calendar."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy.orm import Session

from models.repositories import WatchedBranch
from models.schedules import Occurrence, Schedule
from rules.ids import new_id
from services.schedules.months import MOST_OF_A_DAY
from tests import factories
from tests.handlers.callers import Caller, Tenant, refusal
from tests.handlers.guards import takes_credentials
from tests.handlers.test_schedules import DAILY, FIRST, NIGHT, NOON, SOON, UNKNOWN, created, rows, starts
from tests.support.clocks import MovableClock

DRAFT = {"timezone": "UTC", "recurrence": DAILY, "window": NIGHT}
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def web(acme: Tenant, session: Session) -> WatchedBranch:
    """Return the watched `main` of acme/web."""
    return factories.branch(session, acme.repository("web"))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def add(session: Session, of: Schedule, start: str, end: str, **columns: Any) -> Occurrence:
    """Add an occurrence between two instants, UTC."""
    return factories.occurrence(session, of, starts_at=at(start), ends_at=at(end), **columns)


def preview(caller: Caller, **changes: Any) -> dict[str, Any]:
    answer = caller.post("/v1/schedules/preview", {**DRAFT, **changes})
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def listed(caller: Caller, **params: Any) -> list[str]:
    answer = caller.get("/v1/schedules/occurrences", **params)
    assert answer.status_code == 200, answer.text
    return [row["id"] for row in answer.json()["data"]]


def month(caller: Caller, name: str, **params: Any) -> dict[str, list[str]]:
    """Return the occurrences of each day of a month that has any."""
    answer = caller.get("/v1/schedules/calendar", month=name, **params)
    assert answer.status_code == 200, answer.text
    days = answer.json()["days"]
    assert all(day["count"] == len(day["occurrences"]) for day in days)
    return {day["date"]: [row["id"] for row in day["occurrences"]] for day in days if day["occurrences"]}


CALLS: dict[str, Callable[[Caller, str], httpx.Response]] = {
    "preview_schedule_draft": lambda caller, _: caller.post("/v1/schedules/preview", DRAFT),
    "preview_schedule": lambda caller, one: caller.get(f"/v1/schedules/{one}/preview"),
    "list_occurrences": lambda caller, one: caller.get("/v1/schedules/occurrences", scheduleId=one),
    "get_schedule_calendar": lambda caller, one: caller.get("/v1/schedules/calendar", month="2026-12", scheduleId=one),
}
every_operation = pytest.mark.parametrize("operation", CALLS)


class TestEveryOperation:
    @every_operation
    def test_takes_its_scope_or_its_role(self, acme: Tenant, session: Session, operation: str) -> None:
        schedule = factories.schedule(session, acme.organization)
        call = CALLS[operation]
        takes_credentials(acme, lambda caller: call(caller, schedule.id), scope="schedule:read", least_role="viewer")

    @every_operation
    def test_changes_nothing(self, acme: Tenant, session: Session, operation: str) -> None:
        schedule = factories.schedule(session, acme.organization)
        assert CALLS[operation](acme.key(), schedule.id).status_code == 200
        assert (acme.audit(), session.query(Schedule).count(), session.query(Occurrence).count()) == ([], 1, 0)

    @pytest.mark.parametrize("operation", ["preview_schedule", "list_occurrences", "get_schedule_calendar"])
    def test_of_an_unknown_schedule_finds_none(
        self, acme: Tenant, globex: Tenant, session: Session, operation: str
    ) -> None:
        foreign = factories.schedule(session, globex.organization)
        for schedule_id in (UNKNOWN, foreign.id, "nonsense", new_id("frz")):
            refusal(CALLS[operation](acme.key(), schedule_id), 404, "schedule_not_found")

    @every_operation
    def test_outlives_the_installation(self, acme: Tenant, session: Session, operation: str) -> None:
        schedule = factories.schedule(session, acme.organization)
        acme.installation.state = "removed"
        session.flush()
        assert CALLS[operation](acme.key(), schedule.id).status_code == 200


class TestPreviewScheduleDraft:
    def test_shows_its_next_windows_in_real_time_and_as_clocks_show_them(self, acme: Tenant) -> None:
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

    def test_shows_ten_unless_it_is_told_how_many(self, acme: Tenant) -> None:
        assert len(preview(acme.key())["occurrences"]) == 10
        assert len(preview(acme.key(), limit=100)["occurrences"]) == 100

    def test_without_a_zone_is_read_in_that_of_the_organisation(self, acme: Tenant, session: Session) -> None:
        acme.organization.settings = {"timezone": "Asia/Kolkata"}
        session.flush()
        answer = acme.key().post("/v1/schedules/preview", {"recurrence": DAILY, "window": NIGHT})
        assert answer.json()["timezone"] == "Asia/Kolkata"

    def test_finds_windows_that_are_years_away(self, acme: Tenant) -> None:
        leap_days = {"frequency": "yearly", "byMonth": [2], "byMonthDay": [29], "startDate": "2026-01-01"}
        found = [row["startsAt"][:10] for row in preview(acme.key(), recurrence=leap_days, limit=2)["occurrences"]]
        assert [day[5:] for day in found] == ["02-29", "02-29"]

    def test_may_show_none_at_all(self, acme: Tenant) -> None:
        once = {"frequency": "once", "startDate": "2026-01-01"}
        assert preview(acme.key(), recurrence=once)["occurrences"] == []

    def test_shows_a_window_that_no_clock_shows_as_skipped(self, acme: Tenant) -> None:
        gap = {"frequency": "once", "startDate": "2028-03-12"}
        window = {"startTime": "02:10", "endTime": "02:40"}
        [shown] = preview(acme.key(), timezone="America/New_York", recurrence=gap, window=window)["occurrences"]
        assert (shown["state"], shown["skipReason"], shown["startsAt"]) == (
            "skipped",
            "no_such_time",
            "2028-03-12T07:00:00Z",
        )

    def test_shows_the_window_that_is_open_now(self, acme: Tenant, session: Session, clock: MovableClock) -> None:
        today = factories.now().date()
        always = {"startTime": "00:00", "endTime": "00:00", "days": 2}
        shown = preview(acme.key(), recurrence={"frequency": "once", "startDate": today.isoformat()}, window=always)
        assert [row["startsAt"] for row in shown["occurrences"]] == [starts(today, 0)]

    def test_tells_what_it_would_collide_with(self, acme: Tenant) -> None:
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

    def test_without_a_scope_is_compared_with_nothing(self, acme: Tenant) -> None:
        created(acme.key())
        shown = preview(acme.key())
        assert (shown["overlaps"], shown["overlapCount"], shown["branchCount"]) == ([], 0, None)

    def test_is_not_compared_with_the_schedule_that_it_is_to_change(self, acme: Tenant) -> None:
        saved = created(acme.key())
        assert preview(acme.key(), scope={"type": "organization"}, scheduleId=saved["id"])["overlaps"] == []
        assert preview(acme.key(), scope={"type": "organization"})["overlapCount"] == 1

    def test_takes_the_body_of_a_creation(self, acme: Tenant) -> None:
        body = {**FIRST, "exceptionsAllowed": False, "enabled": False, "allowOverlap": True, "reason": ""}
        assert acme.key().post("/v1/schedules/preview", body).status_code == 200

    @pytest.mark.parametrize(
        ("changes", "code", "where"),
        [
            ({"timezone": "Mars/Olympus"}, "invalid_timezone", "/timezone"),
            ({"recurrence": {**DAILY, "byDay": ["-1FR"]}}, "invalid_recurrence", "/recurrence/byDay"),
            ({"recurrence": {"frequency": "daily"}}, "invalid_recurrence", "/recurrence/startDate"),
            ({"window": {"startTime": "12:00", "endTime": "12:00"}}, "invalid_recurrence", "/window/endTime"),
            ({"scope": {"type": "glob", "patterns": ["a b"]}}, "invalid_glob", "/scope/patterns/0"),
            ({"scope": {"type": "glob", "patterns": ["acme/x*"]}}, "no_targets_in_scope", "/scope"),
            ({"scheduleId": UNKNOWN}, "invalid_parameter", "/scheduleId"),
            ({"limit": 101}, "validation_failed", "/limit"),
            ({"source": "manual"}, "validation_failed", "/source"),
        ],
    )
    def test_has_the_faults_of_a_creation(self, acme: Tenant, changes: Any, code: str, where: str) -> None:
        error = refusal(acme.key().post("/v1/schedules/preview", {**DRAFT, **changes}), 422, code)
        assert rows(error) == [(where, code)]

    def test_tells_all_faults_at_once(self, acme: Tenant) -> None:
        wrong = {**DRAFT, "scheduleId": UNKNOWN, "timezone": "Mars/Olympus", "window": {**NOON, "endTime": "12:00"}}
        error = refusal(acme.key().post("/v1/schedules/preview", wrong), 422, "invalid_parameter")
        assert [path for path, _ in rows(error)] == ["/scheduleId", "/timezone", "/window/endTime"]


class TestPreviewSchedule:
    def test_shows_what_is_planned_by_its_id_and_what_is_not_yet(self, acme: Tenant) -> None:
        saved = created(acme.key())
        shown = acme.key().get(f"/v1/schedules/{saved['id']}/preview", limit=100).json()["occurrences"]
        assert shown[0]["id"] == saved["nextOccurrence"]["id"]
        planned = [row for row in shown if row["id"] is not None]
        assert len(planned) in {88, 89}
        assert shown[: len(planned)] == planned
        assert shown[-1]["startsAt"] == starts(SOON + 99 * DAY, 22)

    def test_shows_what_somebody_skipped(self, acme: Tenant) -> None:
        saved = created(acme.key())
        acme.key().post(f"/v1/schedules/{saved['id']}/skip-next")
        first, second = acme.key().get(f"/v1/schedules/{saved['id']}/preview", limit=2).json()["occurrences"]
        assert (first["state"], first["skipReason"], second["state"]) == ("skipped", "asked", "planned")

    def test_of_one_that_is_not_enabled_shows_what_it_would_have(self, acme: Tenant) -> None:
        saved = created(acme.key(), enabled=False)
        shown = acme.key().get(f"/v1/schedules/{saved['id']}/preview").json()
        assert [row["id"] for row in shown["occurrences"]] == [None] * 10

    def test_tells_what_it_collides_with_and_not_itself(self, acme: Tenant) -> None:
        saved = created(acme.key())
        other = created(acme.key(), name="Everything", allowOverlap=True)
        shown = acme.key().get(f"/v1/schedules/{saved['id']}/preview").json()
        assert [row["scheduleId"] for row in shown["overlaps"]] == [other["id"]]
        assert (shown["overlapCount"], shown["branchCount"]) == (1, 1)

    def test_passes_over_what_has_gone_from_its_scope(self, acme: Tenant, session: Session) -> None:
        scope = {"type": "repositories", "repositories": ["acme/gone"]}
        schedule = factories.schedule(session, acme.organization, scope=scope)
        assert acme.key().get(f"/v1/schedules/{schedule.id}/preview").json()["branchCount"] == 0

    def test_of_a_deleted_one_finds_none(self, acme: Tenant, session: Session) -> None:
        gone = factories.schedule(session, acme.organization, deleted_at=factories.now())
        refusal(acme.key().get(f"/v1/schedules/{gone.id}/preview"), 404, "schedule_not_found")

    @pytest.mark.parametrize("limit", [0, 101, "x"])
    def test_takes_only_so_many(self, acme: Tenant, session: Session, limit: Any) -> None:
        schedule = factories.schedule(session, acme.organization)
        error = refusal(acme.key().get(f"/v1/schedules/{schedule.id}/preview", limit=limit), 400, "invalid_parameter")
        assert rows(error) == [("limit", "invalid_parameter")]


class TestListOccurrences:
    @pytest.fixture
    def schedule(self, acme: Tenant, session: Session) -> Schedule:
        return factories.schedule(session, acme.organization)

    def test_shows_those_that_touch_the_range_by_their_start(
        self, acme: Tenant, session: Session, schedule: Schedule
    ) -> None:
        reaching_in = add(session, schedule, "2026-12-01", "2026-12-03")
        add(session, schedule, "2026-11-01", "2026-12-02")
        across = add(session, schedule, "2026-06-01", "2027-06-01")
        inside = add(session, schedule, "2026-12-05", "2026-12-06")
        reaching_out = add(session, schedule, "2026-12-09", "2026-12-11")
        add(session, schedule, "2026-12-10", "2026-12-11")
        found = listed(acme.key(), **{"from": "2026-12-02T00:00:00Z", "to": "2026-12-10T00:00:00Z"})
        assert found == [row.id for row in (across, reaching_in, inside, reaching_out)]

    @pytest.mark.parametrize(
        ("bounds", "expected"),
        [
            pytest.param({}, ["old", "new"], id="none: all there are"),
            pytest.param({"from": "2026-06-01T00:00:00Z"}, ["new"], id="an earliest end"),
            pytest.param({"to": "2026-06-01T00:00:00Z"}, ["old"], id="a latest start"),
            pytest.param({"from": "0001-01-01T00:00:00Z", "to": "9999-12-31T23:59:59Z"}, ["old", "new"], id="all time"),
            pytest.param({"from": "2026-01-02T01:00:00+01:00"}, ["new"], id="an instant of another zone"),
        ],
    )
    def test_takes_either_bound(
        self, acme: Tenant, session: Session, schedule: Schedule, bounds: dict[str, str], expected: list[str]
    ) -> None:
        ids = {
            add(session, schedule, "2026-01-01", "2026-01-02").id: "old",
            add(session, schedule, "2027-01-01", "2027-01-02").id: "new",
        }
        assert [ids[found] for found in listed(acme.key(), **bounds)] == expected

    def test_a_range_ends_after_it_begins(self, acme: Tenant) -> None:
        bounds = {"from": "2026-12-02T00:00:00Z", "to": "2026-12-02T00:00:00Z"}
        error = refusal(acme.key().get("/v1/schedules/occurrences", **bounds), 400, "invalid_parameter")
        assert rows(error) == [("to", "invalid_parameter")]

    def test_shows_every_state_or_one(self, acme: Tenant, session: Session, schedule: Schedule, web: Any) -> None:
        now = factories.now()
        freeze = factories.freeze(session, acme.organization, [web], ends_at=now + DAY)
        begun = {"begun_at": now - DAY, "freeze_id": freeze.id}
        states = {
            "past": factories.occurrence(session, schedule, starts_at=now - 3 * DAY),
            "active": factories.occurrence(session, schedule, starts_at=now - DAY, ends_at=now + DAY, **begun),
            "planned": factories.occurrence(session, schedule, starts_at=now + DAY),
            "skipped": factories.occurrence(session, schedule, starts_at=now + 2 * DAY, skip_reason="asked"),
        }
        assert listed(acme.key()) == [row.id for row in states.values()]
        for state, row in states.items():
            [shown] = acme.key().get("/v1/schedules/occurrences", state=state).json()["data"]
            assert (shown["id"], shown["state"]) == (row.id, state)

    def test_shows_those_of_one_schedule_a_deleted_one_too(
        self, acme: Tenant, session: Session, schedule: Schedule
    ) -> None:
        gone = factories.schedule(session, acme.organization, deleted_at=factories.now())
        add(session, schedule, "2026-01-01", "2026-01-02")
        past = add(session, gone, "2026-01-01", "2026-01-02")
        assert listed(acme.key(), scheduleId=gone.id) == [past.id]

    def test_shows_none_of_another_organisation(
        self, acme: Tenant, globex: Tenant, session: Session, schedule: Schedule
    ) -> None:
        add(session, factories.schedule(session, globex.organization), "2026-01-01", "2026-01-02")
        assert listed(acme.key()) == []

    def test_comes_in_pages_that_miss_nothing_and_repeat_nothing(
        self, acme: Tenant, session: Session, schedule: Schedule
    ) -> None:
        others = [factories.schedule(session, acme.organization) for _ in range(4)]
        for each in (schedule, *others):
            add(session, each, "2026-12-01", "2026-12-02")
        everything = listed(acme.key())
        seen, cursor = [], None
        while True:
            params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
            page = acme.key().get("/v1/schedules/occurrences", **params).json()
            seen += [row["id"] for row in page["data"]]
            if (cursor := page["nextCursor"]) is None:
                break
        assert seen == everything == sorted(everything)
        assert len(seen) == 5

    def test_a_cursor_belongs_to_its_filters(self, acme: Tenant, session: Session, schedule: Schedule) -> None:
        for day in (1, 2):
            add(session, schedule, f"2026-12-0{day}", f"2026-12-0{day + 1}")
        cursor = acme.key().get("/v1/schedules/occurrences", limit=1).json()["nextCursor"]
        refusal(
            acme.key().get("/v1/schedules/occurrences", limit=1, cursor=cursor, state="past"), 400, "invalid_cursor"
        )


class TestGetScheduleCalendar:
    @pytest.fixture
    def schedule(self, acme: Tenant, session: Session) -> Schedule:
        return factories.schedule(session, acme.organization, name="Weekends", timezone="Asia/Kolkata")

    def test_shows_every_day_of_the_month(self, acme: Tenant) -> None:
        shown = acme.key().get("/v1/schedules/calendar", month="2028-02").json()
        assert (shown["month"], shown["timezone"]) == ("2028-02", None)
        assert [day["date"] for day in shown["days"]] == [f"2028-02-{number:02}" for number in range(1, 30)]
        assert all(day == {"date": day["date"], "count": 0, "occurrences": []} for day in shown["days"])

    def test_shows_an_occurrence_on_every_day_that_it_touches(
        self, acme: Tenant, session: Session, schedule: Schedule
    ) -> None:
        row = add(session, schedule, "2031-05-02T11:30", "2031-05-04T18:30")  # midnight in Kolkata is 18:30
        assert month(acme.key(), "2031-05") == {f"2031-05-0{day}": [row.id] for day in (2, 3, 4)}
        [shown] = acme.key().get("/v1/schedules/calendar", month="2031-05").json()["days"][1]["occurrences"]
        assert shown == {
            "id": row.id,
            "scheduleId": schedule.id,
            "scheduleName": "Weekends",
            "startsAt": "2031-05-02T11:30:00Z",
            "endsAt": "2031-05-04T18:30:00Z",
            "timezone": "Asia/Kolkata",
            "localStart": "2031-05-02T17:00:00",
            "localEnd": "2031-05-05T00:00:00",
            "state": "planned",
            "skipReason": None,
            "late": False,
            "missed": False,
            "freezeId": None,
        }

    def test_days_are_those_of_each_schedule_or_of_the_zone_that_is_asked_for(
        self, acme: Tenant, session: Session, schedule: Schedule
    ) -> None:
        far = factories.schedule(session, acme.organization, timezone="America/Los_Angeles")
        here = add(session, schedule, "2031-05-10T20:00", "2031-05-10T21:00")
        there = add(session, far, "2031-05-11T03:00", "2031-05-11T04:00")
        assert month(acme.key(), "2031-05") == {"2031-05-11": [here.id], "2031-05-10": [there.id]}
        utc = month(acme.key(), "2031-05", timezone="UTC")
        assert utc == {"2031-05-10": [here.id], "2031-05-11": [there.id]}
        assert acme.key().get("/v1/schedules/calendar", month="2031-05", timezone="UTC").json()["timezone"] == "UTC"

    def test_shows_what_reaches_into_the_month_and_out_of_it(
        self, acme: Tenant, session: Session, schedule: Schedule
    ) -> None:
        row = add(session, schedule, "2031-04-29T20:00", "2031-06-02")
        days = month(acme.key(), "2031-05")
        assert list(days) == [(date(2031, 5, 1) + number * DAY).isoformat() for number in range(31)]
        assert list(month(acme.key(), "2031-04")) == ["2031-04-30"]
        assert set(month(acme.key(), "2031-06")) == {"2031-06-01", "2031-06-02"}
        assert {one for found in days.values() for one in found} == {row.id}
        assert month(acme.key(), "2031-07") == {}

    def test_a_window_without_time_is_shown_on_its_day(
        self, acme: Tenant, session: Session, schedule: Schedule
    ) -> None:
        row = add(session, schedule, "2031-05-09T18:30", "2031-05-09T18:30", skip_reason="no_such_time")
        assert month(acme.key(), "2031-05") == {"2031-05-10": [row.id]}

    def test_shows_those_of_one_schedule_a_deleted_one_too(
        self, acme: Tenant, session: Session, schedule: Schedule
    ) -> None:
        gone = factories.schedule(session, acme.organization, deleted_at=factories.now(), timezone="UTC")
        add(session, schedule, "2026-01-01", "2026-01-02")
        past = add(session, gone, "2026-01-01", "2026-01-02")
        assert month(acme.key(), "2026-01", scheduleId=gone.id) == {"2026-01-01": [past.id]}

    def test_shows_none_of_another_organisation(self, acme: Tenant, globex: Tenant, session: Session) -> None:
        add(session, factories.schedule(session, globex.organization), "2026-01-01", "2026-01-02")
        assert month(acme.key(), "2026-01") == {}

    def test_shows_the_first_of_a_busy_day_and_counts_them_all(
        self, acme: Tenant, session: Session, schedule: Schedule
    ) -> None:
        for minute in range(MOST_OF_A_DAY + 1):
            add(session, schedule, f"2031-05-10T00:{minute:02}", f"2031-05-10T01:{minute:02}")
        shown = acme.key().get("/v1/schedules/calendar", month="2031-05").json()["days"][9]
        assert (shown["count"], len(shown["occurrences"])) == (MOST_OF_A_DAY + 1, MOST_OF_A_DAY)
        assert shown["occurrences"][-1]["startsAt"] == f"2031-05-10T00:{MOST_OF_A_DAY - 1}:00Z"

    @pytest.mark.parametrize(
        ("params", "code", "where"),
        [
            ({}, "missing_parameter", "month"),
            ({"month": "2026-13"}, "invalid_parameter", "month"),
            ({"month": "2026-1"}, "invalid_parameter", "month"),
            ({"month": "1999-12"}, "invalid_parameter", "month"),
            ({"month": "2026-12", "timezone": "Mars/Olympus"}, "invalid_parameter", "timezone"),
            ({"month": "2026-12", "timezone": ""}, "invalid_parameter", "timezone"),
        ],
    )
    def test_a_month_or_a_zone_that_there_is_not_is_refused(
        self, acme: Tenant, params: dict[str, str], code: str, where: str
    ) -> None:
        error = refusal(acme.key().get("/v1/schedules/calendar", **params), 400, code)
        assert [path for path, _ in rows(error)] == [where]
