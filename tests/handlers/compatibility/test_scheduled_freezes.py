"""Planned freezes: schedules with one window."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from models.schedules import Schedule
from tests import factories
from tests.handlers.compatibility.requests import ClassicClient, refused, shown

HOUR = timedelta(hours=1)
PATH = "/scheduled_freezes"


def body(start: datetime, end: datetime, **changes: str) -> bytes:
    fields = {
        "account": "ACME",
        "repository": "web",
        "branch": "main",
        "one_off_freeze_at": str(int(start.timestamp())),
        "one_off_unfreeze_at": str(int(end.timestamp())),
        **changes,
    }
    return "&".join(f"{name}={value}" for name, value in fields.items() if value).encode()


@pytest.fixture
def minute() -> datetime:
    return factories.now().replace(second=0, microsecond=0)


class TestScheduledFreezes:
    def test_window_ahead_is_planned_to_the_minute(self, client: ClassicClient, web: Any, minute: datetime) -> None:
        start, end = minute + 20 * HOUR, minute + 40 * HOUR
        answer = shown(client.post(body(start + timedelta(seconds=59), end + timedelta(seconds=1)), PATH))
        schedule = client.session.scalars(select(Schedule)).one()
        assert answer == {
            "id": schedule.id,
            "account": "acme",
            "repository": "web",
            "branch": "main",
            "one_off_freeze_at": int(start.timestamp()),
            "one_off_unfreeze_at": int(end.timestamp()),
        }
        assert (schedule.name, schedule.timezone) == ("One-off freeze of acme/web main", "UTC")
        state = client.state()
        assert (state["frozen"], state["next_freeze_at"]) == (False, answer["one_off_freeze_at"])
        assert state["next_unfreeze_at"] == answer["one_off_unfreeze_at"]
        entry = client.acme.audit()
        assert entry == ["schedule.created"]

    def test_window_that_is_open_already_begins_now(self, client: ClassicClient, web: Any, minute: datetime) -> None:
        shown(client.post(body(minute - 50 * HOUR, minute + HOUR), PATH))
        state = client.state()
        assert (state["frozen"], state["frozen_by"]) == (True, "One-off freeze of acme/web main")
        assert state["next_unfreeze_at"] == int((minute + HOUR).timestamp())

    def test_windows_may_overlap(self, client: ClassicClient, web: Any, minute: datetime) -> None:
        for _ in range(2):
            shown(client.post(body(minute + HOUR, minute + 3 * HOUR), PATH))
        assert len(client.session.scalars(select(Schedule)).all()) == 2

    def test_times_that_make_no_window_are_refused(self, client: ClassicClient, web: Any, minute: datetime) -> None:
        for start, end in ((2 * HOUR, HOUR), (HOUR, HOUR), (-2 * HOUR, -HOUR), (HOUR, timedelta(days=368))):
            answer = client.post(body(minute + start, minute + end), PATH)
            assert "one_off_unfreeze_at" in refused(answer, 400, "invalid_parameter")
        for missing in ("one_off_unfreeze_at", "one_off_freeze_at", "branch"):
            answer = client.post(body(minute + HOUR, minute + 2 * HOUR, **{missing: ""}), PATH)
            assert missing in refused(answer, 400, "missing_parameter")
        for wrong in ("soon", "1e9", "-1", "9" * 15):
            answer = client.post(body(minute, minute + HOUR, one_off_unfreeze_at=wrong), PATH)
            refused(answer, 400, "invalid_parameter")

    def test_unknown_branch_and_exceeded_quota_are_refused(
        self, client: ClassicClient, web: Any, minute: datetime
    ) -> None:
        ahead = (minute + HOUR, minute + 2 * HOUR)
        refused(client.post(body(*ahead, branch="nothing"), PATH), 404, "branch_not_found")
        refused(client.post(body(*ahead, repository="nothing"), PATH), 404, "repository_not_found")
        factories.change_plan(client.session, client.acme.organization, "free")
        for _ in range(3):
            shown(client.post(body(*ahead), PATH))
        refused(client.post(body(*ahead), PATH), 403, "feature_not_available")
