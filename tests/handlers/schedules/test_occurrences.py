"""Occurrences of a range of time, and of a month by its days."""

from datetime import date
from typing import Any

import pytest

from models.schedules import Schedule
from services.schedules.month_calendar import MAX_PER_DAY
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.schedules.preview_requests import DAY, add, listed, month
from tests.handlers.schedules.requests import rows


class TestListOccurrences:
    @pytest.fixture
    def schedule(self, acme: Tenant) -> Schedule:
        return factories.schedule(acme.session, acme.organization)

    def test_list_occurrences_shows_those_in_the_range_by_start(self, acme: Tenant, schedule: Schedule) -> None:
        reaching_in = add(acme.session, schedule, "2026-12-01", "2026-12-03")
        add(acme.session, schedule, "2026-11-01", "2026-12-02")
        across = add(acme.session, schedule, "2026-06-01", "2027-06-01")
        inside = add(acme.session, schedule, "2026-12-05", "2026-12-06")
        reaching_out = add(acme.session, schedule, "2026-12-09", "2026-12-11")
        add(acme.session, schedule, "2026-12-10", "2026-12-11")
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
    def test_list_occurrences_accepts_either_bound_alone(
        self, acme: Tenant, schedule: Schedule, bounds: dict[str, str], expected: list[str]
    ) -> None:
        ids = {
            add(acme.session, schedule, "2026-01-01", "2026-01-02").id: "old",
            add(acme.session, schedule, "2027-01-01", "2027-01-02").id: "new",
        }
        assert [ids[found] for found in listed(acme.key(), **bounds)] == expected

    def test_list_occurrences_rejects_a_range_without_duration(self, acme: Tenant) -> None:
        bounds = {"from": "2026-12-02T00:00:00Z", "to": "2026-12-02T00:00:00Z"}
        error = refusal(acme.key().get("/v1/schedules/occurrences", **bounds), 400, "invalid_parameter")
        assert rows(error) == [("to", "invalid_parameter")]

    def test_list_occurrences_shows_or_filters_every_state(self, acme: Tenant, schedule: Schedule, web: Any) -> None:
        now = factories.now()
        freeze = factories.freeze(acme.session, acme.organization, [web], ends_at=now + DAY)
        started = {"started_at": now - DAY, "freeze_id": freeze.id}
        states = {
            "past": factories.occurrence(acme.session, schedule, starts_at=now - 3 * DAY),
            "active": factories.occurrence(acme.session, schedule, starts_at=now - DAY, ends_at=now + DAY, **started),
            "planned": factories.occurrence(acme.session, schedule, starts_at=now + DAY),
            "skipped": factories.occurrence(acme.session, schedule, starts_at=now + 2 * DAY, skip_reason="asked"),
        }
        assert listed(acme.key()) == [row.id for row in states.values()]
        for state, row in states.items():
            [shown] = acme.key().get("/v1/schedules/occurrences", state=state).json()["data"]
            assert (shown["id"], shown["state"]) == (row.id, state)

    def test_list_occurrences_filters_by_schedule_even_if_deleted(self, acme: Tenant, schedule: Schedule) -> None:
        gone = factories.schedule(acme.session, acme.organization, deleted_at=factories.now())
        add(acme.session, schedule, "2026-01-01", "2026-01-02")
        past = add(acme.session, gone, "2026-01-01", "2026-01-02")
        assert listed(acme.key(), scheduleId=gone.id) == [past.id]


class TestGetScheduleCalendar:
    @pytest.fixture
    def schedule(self, acme: Tenant) -> Schedule:
        return factories.schedule(acme.session, acme.organization, name="Weekends", timezone="Asia/Kolkata")

    def test_calendar_shows_every_day_of_the_month(self, acme: Tenant) -> None:
        shown = acme.key().get("/v1/schedules/calendar", month="2028-02").json()
        assert (shown["month"], shown["timezone"]) == ("2028-02", None)
        assert [day["date"] for day in shown["days"]] == [f"2028-02-{number:02}" for number in range(1, 30)]
        assert all(day == {"date": day["date"], "count": 0, "occurrences": []} for day in shown["days"])

    def test_calendar_shows_an_occurrence_on_every_day_of_its_window(self, acme: Tenant, schedule: Schedule) -> None:
        row = add(acme.session, schedule, "2031-05-02T11:30", "2031-05-04T18:30")  # midnight in Kolkata is 18:30
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
            "lateSeconds": 0,
            "missed": False,
            "freezeId": None,
        }

    def test_calendar_days_follow_the_schedule_or_the_given_timezone(self, acme: Tenant, schedule: Schedule) -> None:
        far = factories.schedule(acme.session, acme.organization, timezone="America/Los_Angeles")
        here = add(acme.session, schedule, "2031-05-10T20:00", "2031-05-10T21:00")
        there = add(acme.session, far, "2031-05-11T03:00", "2031-05-11T04:00")
        assert month(acme.key(), "2031-05") == {"2031-05-11": [here.id], "2031-05-10": [there.id]}
        utc = month(acme.key(), "2031-05", timezone="UTC")
        assert utc == {"2031-05-10": [here.id], "2031-05-11": [there.id]}
        assert acme.key().get("/v1/schedules/calendar", month="2031-05", timezone="UTC").json()["timezone"] == "UTC"

    def test_calendar_shows_occurrences_that_cross_the_month(self, acme: Tenant, schedule: Schedule) -> None:
        row = add(acme.session, schedule, "2031-04-29T20:00", "2031-06-02")
        days = month(acme.key(), "2031-05")
        assert list(days) == [(date(2031, 5, 1) + number * DAY).isoformat() for number in range(31)]
        assert list(month(acme.key(), "2031-04")) == ["2031-04-30"]
        assert set(month(acme.key(), "2031-06")) == {"2031-06-01", "2031-06-02"}
        assert {one for found in days.values() for one in found} == {row.id}
        assert month(acme.key(), "2031-07") == {}

    def test_calendar_shows_whole_weeks_if_asked(self, acme: Tenant, schedule: Schedule) -> None:
        before, after = (
            add(acme.session, schedule, f"{day}T12:00", f"{day}T13:00") for day in ("2031-04-28", "2031-06-01")
        )
        add(acme.session, schedule, "2031-04-27T12:00", "2031-04-27T13:00")
        add(acme.session, schedule, "2031-06-02T12:00", "2031-06-02T13:00")
        assert month(acme.key(), "2031-05", timezone="UTC", wholeWeeks="false") == {}
        found = month(acme.key(), "2031-05", timezone="UTC", wholeWeeks="true")
        assert found == {"2031-04-28": [before.id], "2031-06-01": [after.id]}
        begins_on_monday = acme.key().get("/v1/schedules/calendar", month="2027-02", wholeWeeks="true").json()["days"]
        assert [day["date"] for day in begins_on_monday] == [f"2027-02-{number:02}" for number in range(1, 29)]

    def test_calendar_shows_an_empty_window_on_its_day(self, acme: Tenant, schedule: Schedule) -> None:
        row = add(acme.session, schedule, "2031-05-09T18:30", "2031-05-09T18:30", skip_reason="no_such_time")
        assert month(acme.key(), "2031-05") == {"2031-05-10": [row.id]}

    def test_calendar_filters_by_schedule_even_if_deleted(self, acme: Tenant, schedule: Schedule) -> None:
        gone = factories.schedule(acme.session, acme.organization, deleted_at=factories.now(), timezone="UTC")
        add(acme.session, schedule, "2026-01-01", "2026-01-02")
        past = add(acme.session, gone, "2026-01-01", "2026-01-02")
        assert month(acme.key(), "2026-01", scheduleId=gone.id) == {"2026-01-01": [past.id]}

    def test_calendar_truncates_a_busy_day_and_counts_every_occurrence(self, acme: Tenant, schedule: Schedule) -> None:
        for minute in range(MAX_PER_DAY + 1):
            add(acme.session, schedule, f"2031-05-10T00:{minute:02}", f"2031-05-10T01:{minute:02}")
        shown = acme.key().get("/v1/schedules/calendar", month="2031-05").json()["days"][9]
        assert (shown["count"], len(shown["occurrences"])) == (MAX_PER_DAY + 1, MAX_PER_DAY)
        assert shown["occurrences"][-1]["startsAt"] == f"2031-05-10T00:{MAX_PER_DAY - 1}:00Z"

    def test_calendar_rejects_an_invalid_month_or_timezone(self, acme: Tenant) -> None:
        cases: list[tuple[dict[str, str], str, str]] = [
            ({}, "missing_parameter", "month"),
            ({"month": "2026-13"}, "invalid_parameter", "month"),
            ({"month": "2026-1"}, "invalid_parameter", "month"),
            ({"month": "1999-12"}, "invalid_parameter", "month"),
            ({"month": "2026-12", "timezone": "Mars/Olympus"}, "invalid_timezone", "timezone"),
            ({"month": "2026-12", "timezone": ""}, "invalid_timezone", "timezone"),
        ]
        for params, code, where in cases:
            status = 422 if code == "invalid_timezone" else 400
            error = refusal(acme.key().get("/v1/schedules/calendar", **params), status, code)
            assert [path for path, _ in rows(error)] == [where]
