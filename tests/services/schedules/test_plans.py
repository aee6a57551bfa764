"""Planned windows: which rows there are, whatever the clocks do, and what becomes of them when a schedule changes."""

from datetime import timedelta

from sqlalchemy.dialects.postgresql import Range

from rules.time.zones import DATA_VERSION
from services.schedules.missed_windows import record_missed
from services.schedules.plans import HORIZON, LOOKAHEAD, extend_plans
from tests.services.schedules.conftest import ScheduleFixture, utc

FRIDAYS = {"frequency": "weekly", "by_day": ["FR"], "start_date": "2026-01-02"}
WEEKEND = {"start_time": "17:00", "end_time": "08:00", "days": 3}
NOON_TO_ONE = {"start_time": "12:00", "end_time": "13:00"}


def once(day: str) -> dict[str, object]:
    return {"frequency": "once", "start_date": day}


class TestWindows:
    def test_windows_are_planned_as_rows_for_90_days(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 12:00").create(recurrence=FRIDAYS, window=WEEKEND)
        rows = schedules.rows(made)
        assert [row.starts_at for row in rows if row.starts_at > utc("2026-11-21 12:00")] == [
            utc("2026-11-27 17:00") + timedelta(weeks=week) for week in range(12)
        ]
        assert rows[-1].starts_at <= utc("2026-11-21 12:00") + HORIZON
        schedule = schedules.schedule(made)
        assert (schedule.planned_until, schedule.planned_with) == (utc("2026-11-21 12:00") + HORIZON, DATA_VERSION)

    def test_windows_are_kept_as_ranges_for_400_days(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 12:00").create(recurrence=FRIDAYS, window=WEEKEND)
        windows = schedules.schedule(made).windows
        assert windows is not None
        assert windows[0] == Range(utc("2026-11-20 17:00"), utc("2026-11-23 08:00"))
        assert windows[-1].lower is not None
        assert utc("2026-11-21 12:00") + LOOKAHEAD - windows[-1].lower < timedelta(weeks=1)

    def test_open_window_is_planned_and_begins_at_once(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 12:00").create(recurrence=FRIDAYS, window=WEEKEND)
        assert schedules.show(made)["next_occurrence"]["starts_at"] == utc("2026-11-20 17:00")
        assert schedules.begin() == 1
        assert schedules.windows(made, "active") == ["11-20 17:00 to 11-23 08:00"]
        assert not schedules.rows(made)[0].late
        assert schedules.show(made)["next_occurrence"]["starts_at"] == utc("2026-11-27 17:00")

    def test_window_within_skipped_local_time_is_skipped_with_a_reason(self, schedules: ScheduleFixture) -> None:
        window = {"start_time": "01:10", "end_time": "01:50"}
        made = schedules.at("2027-03-26 12:00").create(window=window)
        assert schedules.windows(made, "skipped") == ["03-28 01:00 to 03-28 01:00"]
        assert [row.skip_reason for row in schedules.rows(made)[:3]] == [None, "no_such_time", None]
        assert schedules.windows(made)[:2] == ["03-27 01:10 to 03-27 01:50", "03-29 00:10 to 03-29 00:50"]

    def test_window_in_a_gap_remains_skipped_after_its_day(self, schedules: ScheduleFixture) -> None:
        gap = {"start_time": "02:10", "end_time": "02:40"}
        made = schedules.at("2027-03-13 12:00").create(timezone="America/New_York", window=gap)
        schedules.at("2027-03-14 20:00").begin()
        assert record_missed(schedules.jobs) == 0
        assert schedules.windows(made, "skipped") == ["03-14 07:00 to 03-14 07:00"]
        assert schedules.windows(made, "past") == []


class TestEdit:
    def test_edit_keeps_rows_of_unchanged_windows(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 12:00").create()
        before = {row.starts_at: row.id for row in schedules.rows(made)}
        schedules.update(made, recurrence={"frequency": "daily", "interval": 2, "start_date": "2026-01-01"})
        after = {row.starts_at: row.id for row in schedules.rows(made)}
        assert after.items() < before.items()
        assert len(after) == len(before) / 2

    def test_edit_keeps_the_active_window(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 12:00").create()
        assert schedules.at("2026-11-21 22:00").begin() == 1
        schedules.at("2026-11-21 23:00").update(made, window={"start_time": "21:00", "end_time": "05:00", "days": 1})
        assert schedules.windows(made, "active") == ["11-21 22:00 to 11-22 06:00"]
        assert schedules.windows(made)[0] == "11-22 21:00 to 11-23 05:00"
        assert schedules.begin() == 0

    def test_edit_begins_no_second_window_on_a_day_with_a_lifted_freeze(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 12:00").create()
        schedules.at("2026-11-21 22:00").begin()
        schedules.lift(made)
        schedules.at("2026-11-21 23:00").update(made, window={"start_time": "21:00", "end_time": "05:00", "days": 1})
        assert schedules.begin() == 0
        assert schedules.windows(made, "past") == ["11-21 22:00 to 11-22 06:00"]

    def test_edit_plans_a_later_window_on_the_day_of_the_active_window(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 12:00").create(window=NOON_TO_ONE)
        schedules.begin()
        schedules.update(made, window={"start_time": "18:00", "end_time": "19:00"})
        assert schedules.windows(made, "active") == ["11-21 12:00 to 11-21 13:00"]
        assert schedules.windows(made)[0] == "11-21 18:00 to 11-21 19:00"

    def test_window_opened_by_an_edit_begins_at_once(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 12:00").create(recurrence=once("2026-12-24"))
        schedules.update(made, recurrence=once("2026-11-21"), window={"start_time": "09:00", "end_time": "18:00"})
        assert schedules.begin() == 1
        assert schedules.windows(made, "active") == ["11-21 09:00 to 11-21 18:00"]
        assert not schedules.rows(made)[0].late

    def test_due_window_removed_by_an_edit_does_not_begin(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 12:00").create(recurrence=once("2026-11-21"))
        schedules.at("2026-11-21 22:00").update(made, recurrence=once("2026-11-22"))
        assert schedules.begin() == 0
        assert schedules.windows(made) == ["11-22 22:00 to 11-23 06:00"]

    def test_edit_of_the_name_plans_nothing(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 12:00").create()
        schedules.at("2026-11-21 13:00").update(made, name="Late nights")
        assert schedules.schedule(made).planned_until == utc("2026-11-21 12:00") + HORIZON

    def test_disabling_removes_planned_windows_and_keeps_the_active(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 12:00").create()
        schedules.at("2026-11-21 22:00").begin()
        schedules.update(made, enabled=False)
        assert schedules.windows(made) == []
        assert schedules.windows(made, "active") == ["11-21 22:00 to 11-22 06:00"]
        schedules.at("2026-11-22 12:00").update(made, enabled=True)
        assert schedules.windows(made)[0] == "11-22 22:00 to 11-23 06:00"


class TestSkip:
    def test_skip_of_an_open_window_holds_for_another_start_on_that_day(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 12:00").create()
        schedules.skip_next(made)
        schedules.at("2026-11-21 23:00").update(made, window={"start_time": "21:00", "end_time": "05:00", "days": 1})
        assert schedules.begin() == 0

    def test_skip_stays_when_the_plan_is_extended(self, schedules: ScheduleFixture) -> None:
        made = schedules.at("2026-11-21 12:00").create()
        schedules.skip_next(made)
        schedules.skip_next(made)
        assert extend_plans(schedules.at("2026-11-22 12:00").jobs) == 1
        assert schedules.windows(made, "skipped") == ["11-21 22:00 to 11-22 06:00", "11-22 22:00 to 11-23 06:00"]
