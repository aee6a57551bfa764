"""How many freezes and windows last on each day."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from tests import factories
from tests.handlers.callers import Caller, Tenant, refusal

PATH = "/v1/overview/days"
MARCH = {"firstDay": "2026-03-09", "lastDay": "2026-03-15"}


def hour(day: int, of_day: int = 12) -> datetime:
    return datetime(2026, 3, day, of_day, tzinfo=UTC)


def add(acme: Tenant, session: Session, start: datetime, end: datetime | None, **columns: Any) -> None:
    ended = {"ended_at": end, "end_reason": "lifted", "ended_by": factories.SYSTEM} if end else {}
    factories.freeze(session, acme.organization, started_at=start, **{**ended, **columns})


def counted(viewer: Caller, **query: str) -> tuple[int, list[int]]:
    found = viewer.get(PATH, **{**MARCH, **query}).json()
    return found["count"], [day["count"] for day in found["days"]]


class TestGetBusyDays:
    def test_busy_days_count_what_lasts_on_each(self, acme: Tenant, viewer: Caller) -> None:
        add(acme, acme.session, hour(1), hour(10, 0))
        add(acme, acme.session, hour(11), hour(13))
        add(acme, acme.session, hour(12), hour(12, 13))
        add(acme, acme.session, hour(15), None)
        add(acme, acme.session, hour(16, 0), None)
        schedule = factories.schedule(acme.session, acme.organization, enabled=False)
        factories.occurrence(acme.session, schedule, starts_at=hour(14, 23), ends_at=hour(15, 1))
        factories.occurrence(acme.session, schedule, starts_at=hour(9), ends_at=hour(10), skip_reason="requested")
        assert counted(viewer) == (5, [1, 0, 1, 2, 1, 1, 2])

    def test_days_are_those_of_the_zone(self, acme: Tenant, viewer: Caller) -> None:
        add(acme, acme.session, hour(10, 16), hour(10, 17))
        assert counted(viewer) == (1, [0, 1, 0, 0, 0, 0, 0])
        assert counted(viewer, timezone="Asia/Tokyo") == (1, [0, 0, 1, 0, 0, 0, 0])
        shown = viewer.get(PATH, **MARCH, timezone="Asia/Tokyo").json()
        assert (shown["timezone"], shown["days"][0]["date"], len(shown["days"])) == ("Asia/Tokyo", "2026-03-09", 7)

    def test_window_and_its_freeze_count_once(self, acme: Tenant, viewer: Caller) -> None:
        schedule = factories.schedule(acme.session, acme.organization, enabled=False)
        window = factories.occurrence(acme.session, schedule, starts_at=hour(10), ends_at=hour(11))
        add(acme, acme.session, hour(10), hour(11), occurrence_id=window.id, schedule_id=schedule.id, source="schedule")
        assert counted(viewer) == (1, [0, 1, 1, 0, 0, 0, 0])

    def test_freezes_that_no_window_has_are_listed(self, acme: Tenant, viewer: Caller) -> None:
        schedule = factories.schedule(acme.session, acme.organization, enabled=False)
        window = factories.occurrence(acme.session, schedule, starts_at=hour(10), ends_at=hour(11))
        add(acme, acme.session, hour(10), hour(11), occurrence_id=window.id, schedule_id=schedule.id, source="schedule")
        add(acme, acme.session, hour(12), None, reason="Until we know more")
        add(acme, acme.session, hour(11), hour(13), reason="Migration")
        add(acme, acme.session, hour(1), None, reason="Ends by itself", ends_at=hour(14))
        add(acme, acme.session, hour(16), None, reason="Later")
        shown = viewer.get(PATH, **MARCH, listFreezes="true").json()["freezes"]
        assert [(each["reason"], each["state"], each["endedAt"], each["endReason"]) for each in shown] == [
            ("Ends by itself", "ended", "2026-03-14T12:00:00Z", "expired"),
            ("Migration", "ended", "2026-03-13T12:00:00Z", "lifted"),
            ("Until we know more", "in_force", None, None),
        ]
        assert viewer.get(PATH, **MARCH).json()["freezes"] == []

    def test_listed_freeze_is_shown_as_by_itself(self, acme: Tenant, viewer: Caller) -> None:
        web = factories.branch(acme.session, factories.repository(acme.session, acme.organization, "acme/web"))
        scope = {"type": "repositories", "repositories": [web.repository_id]}
        freeze = factories.freeze(acme.session, acme.organization, [web], started_at=hour(12), scope=scope)
        [listed] = viewer.get(PATH, **MARCH, listFreezes="true").json()["freezes"]
        shown = viewer.get(f"/v1/freezes/{freeze.id}").json()
        assert listed == {name: shown[name] for name in listed}

    def test_windows_that_are_not_stored_yet_are_counted(self, acme: Tenant, viewer: Caller) -> None:
        factories.schedule(acme.session, acme.organization, planned_until=factories.now() + timedelta(days=90))
        year = factories.now().year + 1
        count, days = counted(viewer, firstDay=f"{year}-10-01", lastDay=f"{year}-10-31")
        assert count in {4, 5, 6}, "weekends of a month"
        assert {sum(days[first : first + 7]) for first in range(0, 28, 7)} == {4}, "Friday to Monday"

    def test_busy_days_are_filtered_by_name_and_repository(self, acme: Tenant, viewer: Caller) -> None:
        web, api = (
            factories.branch(acme.session, factories.repository(acme.session, acme.organization, f"acme/{name}"))
            for name in ("web", "api")
        )
        ended: dict[str, Any] = {"ended_at": hour(11), "end_reason": "lifted", "ended_by": factories.SYSTEM}
        for branch, reason in ((web, "Ledger migration"), (api, "Audit")):
            factories.freeze(acme.session, acme.organization, [branch], reason=reason, started_at=hour(10), **ended)
        assert counted(viewer)[0] == 2
        assert counted(viewer, name="MIGRATION") == counted(viewer, repo="acme/web") == (1, [0, 1, 1, 0, 0, 0, 0])
        refusal(viewer.get(PATH, **MARCH, repo="acme/none"), 404, "repository_not_found")

    @pytest.mark.parametrize(
        ("given", "name"),
        [
            ({"firstDay": "2026-02-30", "lastDay": "2026-03-10"}, "firstDay"),
            ({"firstDay": "2026-03-10", "lastDay": "2026-03-09"}, "lastDay"),
            ({"firstDay": "2026-03-10", "lastDay": "2027-04-14"}, "lastDay"),
        ],
    )
    def test_busy_days_reject_what_is_no_range_of_days(self, viewer: Caller, given: dict[str, str], name: str) -> None:
        error = refusal(viewer.get(PATH, **given), 400, "invalid_parameter")
        assert error["details"][0]["path"] == name

    def test_busy_days_reject_an_unknown_time_zone(self, viewer: Caller) -> None:
        refusal(viewer.get(PATH, **MARCH, timezone="Mars/Olympus"), 422, "invalid_timezone")
