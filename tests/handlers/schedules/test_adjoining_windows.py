"""Schedules of which one begins when the other ends, as clocks show it, also where clocks change."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.handlers.callers import Caller, refusal
from tests.handlers.schedules.requests import FIRST, created
from tests.harness.clock import MovableClock

BERLIN = {"timezone": "Europe/Berlin"}
DAYS = {"frequency": "daily", "startDate": "2026-10-21"}
UNTIL = {**BERLIN, "recurrence": DAYS, "window": {"startTime": "22:00", "endTime": "02:30", "days": 1}}
FROM = {**BERLIN, "recurrence": DAYS, "window": {"startTime": "02:30", "endTime": "06:00"}}
FOLD = {"frequency": "once", "startDate": "2026-10-25"}
"""The day on which 02:30 is shown twice: at 00:30 and 01:30 UTC."""
REPEATED = {"timezone": "UTC", "recurrence": FOLD, "window": {"startTime": "01:00", "endTime": "01:15"}}


@pytest.fixture(autouse=True)
def _october(clock: MovableClock) -> None:
    """Have it be October 2026, before a year with both changes of the clocks."""
    clock.at = datetime(2026, 10, 20, 12, tzinfo=UTC)


class TestAdjoiningWindows:
    @pytest.mark.parametrize("schedules", [(UNTIL, FROM), (FROM, UNTIL)], ids=["in order", "in reverse"])
    def test_adjoining_windows_do_not_overlap_when_clocks_change(
        self, key: Caller, schedules: tuple[dict[str, Any], ...]
    ) -> None:
        first, second = schedules
        created(key, **first)
        preview = key.post("/v1/schedules/preview", {**second, "scope": FIRST["scope"]}).json()
        assert preview["overlaps"] == []
        made = created(key, name="Second", **second)
        assert key.patch(f"/v1/schedules/{made['id']}", {"window": second["window"]}).status_code == 200

    def test_windows_stay_as_long_as_the_clocks_show_them(self, key: Caller) -> None:
        created(key, **UNTIL)
        query = {"from": "2026-10-24T12:00:00Z", "to": "2026-10-25T12:00:00Z"}
        [window] = key.get("/v1/schedules/occurrences", **query).json()["data"]
        assert window["endsAt"] == "2026-10-25T01:30:00Z"

    @pytest.mark.parametrize("adjoining", [UNTIL, FROM])
    def test_repeated_hour_counts_beside_another_zone(self, key: Caller, adjoining: dict[str, Any]) -> None:
        created(key, **adjoining)
        refusal(key.post("/v1/schedules", {**FIRST, **REPEATED}), 409, "schedule_overlap")

    def test_overlap_in_the_repeated_hour_counts_in_one_zone(self, key: Caller) -> None:
        window = {"startTime": "01:00", "endTime": "02:45"}
        created(key, **UNTIL)
        refusal(
            key.post("/v1/schedules", {**FIRST, **BERLIN, "recurrence": FOLD, "window": window}),
            409,
            "schedule_overlap",
        )
