"""What a preview says of terms that are easily misread."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.handlers.callers import Caller
from tests.handlers.schedules.preview_requests import DRAFT, preview
from tests.handlers.schedules.requests import EVERYTHING, created
from tests.harness.clock import MovableClock

LAST_THREE = {
    "frequency": "monthly",
    "byDay": ["MO", "TU", "WE", "TH", "FR"],
    "bySetPosition": [-3],
    "startDate": "2027-01-01",
}
WHOLE_DAYS = {"startTime": "00:00", "endTime": "00:00", "days": 3}
ONE_BRANCH = {"type": "branch", "repository": "acme/web", "branch": "main"}


@pytest.fixture(autouse=True)
def _january(clock: MovableClock) -> None:
    """Have it be January 2027."""
    clock.at = datetime(2027, 1, 1, 12, tzinfo=UTC)


def codes(shown: dict[str, Any]) -> list[str]:
    return [remark["code"] for remark in shown["remarks"]]


class TestPreviewRemarks:
    def test_ordinary_draft_has_no_remark(self, key: Caller) -> None:
        assert codes(preview(key, scope=ONE_BRANCH)) == []
        assert codes(preview(key)) == []

    def test_windows_that_miss_the_last_working_day_are_remarked(self, key: Caller) -> None:
        shown = preview(key, recurrence=LAST_THREE, window=WHOLE_DAYS)
        assert codes(shown) == ["last_day_missed"]
        assert "begins on 2027-05-27 ends before 2027-05-31" in shown["remarks"][0]["message"]

    def test_draft_whose_windows_are_over_says_so(self, key: Caller) -> None:
        shown = preview(key, recurrence={"frequency": "once", "startDate": "2026-12-24"})
        assert (shown["occurrences"], codes(shown)) == ([], ["over"])

    def test_draft_without_a_window_in_ten_years_says_so(self, key: Caller) -> None:
        shown = preview(key, recurrence={"frequency": "once", "startDate": "2040-12-24"})
        assert (shown["occurrences"], codes(shown)) == ([], ["far_ahead"])

    @pytest.mark.parametrize("scope", [EVERYTHING, {"type": "glob", "patterns": ["acme/*"]}])
    def test_open_ended_scope_is_remarked(self, key: Caller, scope: dict[str, Any]) -> None:
        shown = preview(key, scope=scope)
        assert codes(shown) == ["open_ended"]
        assert ": 1 now" in shown["remarks"][0]["message"]

    def test_saved_schedule_is_remarked_too(self, key: Caller) -> None:
        terms = {**DRAFT, "recurrence": LAST_THREE, "window": WHOLE_DAYS}
        made = created(key, **terms)
        shown = key.get(f"/v1/schedules/{made['id']}/preview").json()
        assert codes(shown) == ["open_ended", "last_day_missed"]
