"""Reading schedules, one or in lists."""

from datetime import timedelta
from typing import Any

from sqlalchemy.orm import Session

from models.repositories import WatchedBranch
from models.schedules import Schedule
from tests import factories
from tests.handlers.callers import Tenant, refusal
from tests.handlers.schedules.requests import FIELDS, NOON, SOON, created, running, starts


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

    def test_pages_of_schedules_list_each_schedule_once(self, acme: Tenant, session: Session) -> None:
        same = factories.now() + timedelta(days=1)
        made = [factories.schedule(session, acme.organization).id for _ in range(7)]
        for schedule_id in made[:5]:
            factories.occurrence(session, session.get_one(Schedule, schedule_id), starts_at=same)
        found: list[str] = []
        page: dict[str, Any] = {"nextCursor": ""}
        while page["nextCursor"] is not None:
            asked = {"cursor": page["nextCursor"]} if page["nextCursor"] else {}
            page = acme.key().get("/v1/schedules", limit=2, **asked).json()
            found += [row["id"] for row in page["data"]]
        assert found == sorted(made[:5]) + sorted(made[5:])

    def test_list_schedules_rejects_a_cursor_of_another_organization(
        self, acme: Tenant, globex: Tenant, session: Session
    ) -> None:
        for _ in range(2):
            factories.schedule(session, globex.organization)
        cursor = globex.key().get("/v1/schedules", limit=1).json()["nextCursor"]
        refusal(acme.key().get("/v1/schedules", cursor=cursor), 400, "invalid_cursor")

    def test_list_schedules_omits_deleted_and_foreign_schedules(
        self, acme: Tenant, globex: Tenant, session: Session
    ) -> None:
        factories.schedule(session, globex.organization)
        factories.schedule(session, acme.organization, deleted_at=factories.now())
        assert acme.key().get("/v1/schedules").json() == {"data": [], "nextCursor": None}


class TestGetSchedule:
    def test_get_schedule_shows_the_next_planned_window_only(
        self, acme: Tenant, session: Session, web: WatchedBranch
    ) -> None:
        made = created(acme.key())
        running(session, acme, web, made["id"])
        assert acme.key().post(f"/v1/schedules/{made['id']}/skip-next").status_code == 200
        shown = acme.key("schedule:read").get(f"/v1/schedules/{made['id']}").json()
        assert shown["nextOccurrence"]["startsAt"] == starts(SOON + timedelta(days=1), 22)

    def test_get_schedule_advances_the_next_window_with_the_clock(
        self, acme: Tenant, session: Session, later: Any
    ) -> None:
        schedule = factories.schedule(session, acme.organization)
        first, second = (
            factories.occurrence(session, schedule, starts_at=factories.now() + timedelta(hours=hours))
            for hours in (1, 3)
        )
        path = f"/v1/schedules/{schedule.id}"
        assert acme.key().get(path).json()["nextOccurrence"]["id"] == first.id
        later(hours=2, seconds=1)
        assert acme.key().get(path).json()["nextOccurrence"]["id"] == second.id
        later(hours=3)
        assert acme.key().get(path).json()["nextOccurrence"] is None
