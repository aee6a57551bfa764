"""Reading schedules, one or in lists."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from models.repositories import WatchedBranch
from models.schedules import Schedule
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.people import through_pages
from tests.handlers.schedules.preview_requests import DAY
from tests.handlers.schedules.requests import FIELDS, NOON, SOON, created, rows, running, starts


class TestListSchedules:
    def test_list_schedules_sorts_by_next_window_and_those_without_last(self, acme: Tenant) -> None:
        made = [
            created(acme.key(), name=name, allowOverlap=True, **changes)["id"]
            for name, changes in (
                ("off", {"enabled": False}),
                ("evening", {"window": {"startTime": "20:00", "endTime": "21:00"}}),
                ("noon", {"window": NOON}),
                ("over", {"recurrence": {"frequency": "once", "startDate": "2026-01-01"}}),
            )
        ]
        page = acme.key().get("/v1/schedules").json()
        assert [row["name"] for row in page["data"]] == ["noon", "evening", "off", "over"]
        assert page["nextCursor"] is None
        assert set(page["data"][0]) == FIELDS
        assert {row["id"] for row in page["data"]} == set(made)

    def test_pages_of_schedules_list_each_schedule_once(self, acme: Tenant) -> None:
        same = factories.now() + timedelta(days=1)
        made = [factories.schedule(acme.session, acme.organization).id for _ in range(7)]
        for schedule_id in made[:5]:
            factories.occurrence(acme.session, acme.session.get_one(Schedule, schedule_id), starts_at=same)
        shown = through_pages(acme.key(), "/v1/schedules")
        assert [row["id"] for row in shown] == sorted(made[:5]) + sorted(made[5:])

    def test_list_schedules_omits_deleted_and_foreign_schedules(self, acme: Tenant, globex: Tenant) -> None:
        factories.schedule(acme.session, globex.organization)
        factories.schedule(acme.session, acme.organization, deleted_at=factories.now())
        assert acme.key().get("/v1/schedules").json() == {"data": [], "nextCursor": None}


class TestListSchedulesWithOccurrences:
    @pytest.fixture
    def schedule(self, acme: Tenant) -> Schedule:
        return factories.schedule(acme.session, acme.organization)

    @pytest.mark.parametrize(
        ("bounds", "expected"),
        [
            pytest.param({"From": 1, "To": 9}, ["across", "in"], id="range"),
            pytest.param({"From": 1}, ["across", "in", "out"], id="90 days from then"),
            pytest.param({"From": -87, "To": 185}, ["across", "in", "out", "much later"], id="nine months"),
            pytest.param({"To": 4}, ["across"], id="from now"),
            pytest.param({"To": -22}, [], id="before now"),
        ],
    )
    def test_list_schedules_shows_occurrences_of_each_in_a_range(
        self, acme: Tenant, schedule: Schedule, bounds: dict[str, int], expected: list[str]
    ) -> None:
        now, days = factories.now(), {"in": (4, 5), "across": (0, 2), "out": (62, 63), "much later": (182, 183)}
        names = {
            factories.occurrence(acme.session, schedule, starts_at=now + first * DAY, ends_at=now + last * DAY).id: name
            for name, (first, last) in days.items()
        }
        other = factories.schedule(acme.session, acme.organization)
        query = {f"occurrences{name}": (now + day * DAY).isoformat() for name, day in bounds.items()}
        shown = acme.key().get("/v1/schedules", **query).json()["data"]
        found = {row["id"]: [names[one["id"]] for one in row["occurrences"]] for row in shown}
        assert found == {schedule.id: expected, other.id: []}

    @pytest.mark.parametrize("since", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
    def test_list_schedules_shows_no_occurrences_at_the_ends_of_time(self, acme: Tenant, since: str) -> None:
        created(acme.key())
        [shown] = acme.key().get("/v1/schedules", occurrencesFrom=since).json()["data"]
        assert shown["occurrences"] == []

    def test_list_schedules_shows_occurrences_as_their_own_list_does(
        self, acme: Tenant, schedule: Schedule, web: WatchedBranch
    ) -> None:
        made = created(acme.key())
        running(acme.session, acme, web, made["id"])
        factories.occurrence(acme.session, schedule, skip_reason="asked")
        beyond = {"From": factories.now() + timedelta(days=60), "To": factories.now() + timedelta(days=120)}
        for bounds in ({"From": factories.now()}, beyond):
            query = {f"occurrences{name}": instant.isoformat() for name, instant in bounds.items()}
            shown = acme.key().get("/v1/schedules", **query).json()["data"]
            for row in shown:
                same = {name.lower(): instant.isoformat() for name, instant in bounds.items()}
                page = acme.key().get("/v1/schedules/occurrences", scheduleId=row["id"], limit=100, **same).json()
                assert row["occurrences"] == page["data"]
            assert any(row["occurrences"] for row in shown)

    def test_list_schedules_shows_the_windows_of_a_year_and_refuses_more(self, acme: Tenant) -> None:
        made = created(acme.key())
        first = datetime.fromisoformat(made["nextOccurrence"]["startsAt"])
        year = {"occurrencesFrom": first.isoformat(), "occurrencesTo": (first + timedelta(days=366)).isoformat()}
        [shown] = acme.key().get("/v1/schedules", **year).json()["data"]
        days = [datetime.fromisoformat(one["startsAt"]) for one in shown["occurrences"]]
        assert days == [first + timedelta(days=number) for number in range(366)]
        longer = {**year, "occurrencesTo": (first + timedelta(days=366, seconds=1)).isoformat()}
        error = refusal(acme.key().get("/v1/schedules", **longer), 400, "invalid_parameter")
        assert rows(error) == [("occurrencesTo", "invalid_parameter")]
        assert "366 days" in error["message"]

    def test_list_schedules_rejects_a_range_without_duration(self, acme: Tenant) -> None:
        bounds = dict.fromkeys(("occurrencesFrom", "occurrencesTo"), "2026-12-02T00:00:00Z")
        error = refusal(acme.key().get("/v1/schedules", **bounds), 400, "invalid_parameter")
        assert rows(error) == [("occurrencesTo", "invalid_parameter")]


class TestGetSchedule:
    def test_get_schedule_shows_the_next_planned_window_only(self, acme: Tenant, web: WatchedBranch) -> None:
        made = created(acme.key())
        running(acme.session, acme, web, made["id"])
        assert acme.key().post(f"/v1/schedules/{made['id']}/skip-next").status_code == 200
        shown = acme.key("schedule:read").get(f"/v1/schedules/{made['id']}").json()
        assert shown["nextOccurrence"]["startsAt"] == starts(SOON + timedelta(days=1), 22)

    def test_get_schedule_advances_the_next_window_with_the_clock(self, acme: Tenant, later: Any) -> None:
        schedule = factories.schedule(acme.session, acme.organization)
        first, second = (
            factories.occurrence(acme.session, schedule, starts_at=factories.now() + timedelta(hours=hours))
            for hours in (1, 3)
        )
        path = f"/v1/schedules/{schedule.id}"
        assert acme.key().get(path).json()["nextOccurrence"]["id"] == first.id
        later(hours=2, seconds=1)
        assert acme.key().get(path).json()["nextOccurrence"]["id"] == second.id
        later(hours=3)
        assert acme.key().get(path).json()["nextOccurrence"] is None
