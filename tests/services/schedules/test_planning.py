"""Planned windows: which rows there are, whatever the clocks do, and what becomes of them when a schedule changes."""

from datetime import timedelta

from sqlalchemy.dialects.postgresql import Range

from rules.time.zones import DATA_VERSION
from services.schedules.plans import HORIZON, LOOKAHEAD, extend_plans
from tests.services.schedules.conftest import Office, utc

FRIDAYS = {"frequency": "weekly", "by_day": ["FR"], "start_date": "2026-01-02"}
WEEKEND = {"start_time": "17:00", "end_time": "08:00", "days": 3}
NOON_TO_ONE = {"start_time": "12:00", "end_time": "13:00"}


def once(day: str) -> dict[str, object]:
    return {"frequency": "once", "start_date": day}


class TestWindows:
    def test_are_rows_for_the_90_days_to_come(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create(recurrence=FRIDAYS, window=WEEKEND)
        rows = office.rows(made)
        assert [row.starts_at for row in rows if row.starts_at > utc("2026-11-21 12:00")] == [
            utc("2026-11-27 17:00") + timedelta(weeks=week) for week in range(12)
        ]
        assert rows[-1].starts_at <= utc("2026-11-21 12:00") + HORIZON
        schedule = office.schedule(made)
        assert (schedule.planned_until, schedule.planned_with) == (utc("2026-11-21 12:00") + HORIZON, DATA_VERSION)

    def test_are_ranges_for_400_days_that_overlaps_are_found_by(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create(recurrence=FRIDAYS, window=WEEKEND)
        windows = office.schedule(made).windows
        assert windows is not None
        assert windows[0] == Range(utc("2026-11-20 17:00"), utc("2026-11-23 08:00"))
        assert windows[-1].lower is not None
        assert utc("2026-11-21 12:00") + LOOKAHEAD - windows[-1].lower < timedelta(weeks=1)

    def test_that_are_open_now_are_planned_and_begin_at_once(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create(recurrence=FRIDAYS, window=WEEKEND)
        assert office.show(made)["next_occurrence"]["starts_at"] == utc("2026-11-20 17:00")
        assert office.begin() == 1
        assert office.windows(made, "active") == ["11-20 17:00 to 11-23 08:00"]
        assert not office.rows(made)[0].late
        assert office.show(made)["next_occurrence"]["starts_at"] == utc("2026-11-27 17:00")

    def test_keep_the_time_of_the_clock_when_the_clocks_are_put_back(self, office: Office) -> None:
        made = office.at("2026-10-23 12:00").create(timezone="America/New_York", window=NOON_TO_ONE)
        windows = office.windows(made)
        assert windows[0] == "10-23 16:00 to 10-23 17:00"
        assert windows[8:10] == ["10-31 16:00 to 10-31 17:00", "11-01 17:00 to 11-01 18:00"]

    def test_over_the_change_last_as_long_as_the_clocks_say(self, office: Office) -> None:
        made = office.at("2027-03-27 12:00").create()
        assert [(row.ends_at - row.starts_at) / timedelta(hours=1) for row in office.rows(made)[:3]] == [7, 8, 8]
        made = office.at("2026-10-24 12:00").create(allow_overlap=True)
        assert [(row.ends_at - row.starts_at) / timedelta(hours=1) for row in office.rows(made)[:2]] == [9, 8]

    def test_whose_start_is_skipped_begin_when_the_clocks_are_put_forward(self, office: Office) -> None:
        window = {"start_time": "01:30", "end_time": "04:00"}
        made = office.at("2027-03-27 12:00").create(recurrence=once("2027-03-28"), window=window)
        assert office.windows(made) == ["03-28 01:00 to 03-28 03:00"]

    def test_of_which_no_clock_shows_anything_are_skipped_and_say_so(self, office: Office) -> None:
        window = {"start_time": "01:10", "end_time": "01:50"}
        made = office.at("2027-03-26 12:00").create(window=window)
        assert office.windows(made, "skipped") == ["03-28 01:00 to 03-28 01:00"]
        assert [row.skip_reason for row in office.rows(made)[:3]] == [None, "no_such_time", None]
        assert office.windows(made)[:2] == ["03-27 01:10 to 03-27 01:50", "03-29 00:10 to 03-29 00:50"]

    def test_of_a_day_that_a_zone_skipped_are_skipped(self, office: Office) -> None:
        """Samoa went to the other side of the date line: its 30 December 2011 never was."""
        dates = {"frequency": "dates", "start_date": "2011-12-01", "dates": ["2011-12-30", "2011-12-31"]}
        made = office.at("2011-12-20 12:00").create(timezone="Pacific/Apia", recurrence=dates, window=NOON_TO_ONE)
        assert [row.skip_reason for row in office.rows(made)] == ["no_such_time", None]
        assert office.windows(made) == ["12-30 22:00 to 12-30 23:00"]

    def test_on_listed_dates_come_on_those_from_the_start_on(self, office: Office) -> None:
        dates = {"frequency": "dates", "start_date": "2026-12-01", "dates": ["2026-12-28", "2026-12-25", "2026-11-25"]}
        made = office.at("2026-11-21 12:00").create(
            recurrence=dates, window={"start_time": "00:00", "end_time": "00:00", "days": 1}
        )
        assert office.windows(made) == ["12-25 00:00 to 12-26 00:00", "12-28 00:00 to 12-29 00:00"]

    def test_of_a_schedule_that_is_over_are_none(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create(recurrence=once("2026-11-01"))
        assert office.rows(made) == []
        assert office.show(made)["next_occurrence"] is None

    def test_of_a_disabled_schedule_are_none(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create(enabled=False)
        assert office.rows(made) == []
        assert office.schedule(made).windows is None
        assert office.show(made)["next_occurrence"] is None


class TestAnEdit:
    def test_plans_anew_what_is_to_come(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create(recurrence=once("2026-12-24"))
        office.update(made, recurrence=once("2026-12-31"))
        assert office.windows(made) == ["12-31 22:00 to 01-01 06:00"]

    def test_keeps_the_rows_that_agree(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create()
        before = {row.starts_at: row.id for row in office.rows(made)}
        office.update(made, recurrence={"frequency": "daily", "interval": 2, "start_date": "2026-01-01"})
        after = {row.starts_at: row.id for row in office.rows(made)}
        assert after.items() < before.items()
        assert len(after) == len(before) / 2

    def test_moves_the_end_of_a_planned_window(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create(recurrence=once("2026-11-21"))
        [before] = office.rows(made)
        office.update(made, window={"start_time": "22:00", "end_time": "07:00", "days": 1})
        [after] = office.rows(made)
        assert (after.id, after.ends_at) == (before.id, utc("2026-11-22 07:00"))

    def test_leaves_the_active_window_as_it_is(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create()
        assert office.at("2026-11-21 22:00").begin() == 1
        office.at("2026-11-21 23:00").update(made, window={"start_time": "21:00", "end_time": "05:00", "days": 1})
        assert office.windows(made, "active") == ["11-21 22:00 to 11-22 06:00"]
        assert office.windows(made)[0] == "11-22 21:00 to 11-23 05:00"
        assert office.begin() == 0

    def test_begins_no_second_window_of_the_day_whose_freeze_was_lifted(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create()
        office.at("2026-11-21 22:00").begin()
        office.lift(made)
        office.at("2026-11-21 23:00").update(made, window={"start_time": "21:00", "end_time": "05:00", "days": 1})
        assert office.begin() == 0
        assert office.windows(made, "past") == ["11-21 22:00 to 11-22 06:00"]

    def test_plans_a_window_of_the_same_day_that_comes_after_the_active_one(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create(window=NOON_TO_ONE)
        office.begin()
        office.update(made, window={"start_time": "18:00", "end_time": "19:00"})
        assert office.windows(made, "active") == ["11-21 12:00 to 11-21 13:00"]
        assert office.windows(made)[0] == "11-21 18:00 to 11-21 19:00"

    def test_leaves_what_is_over_as_it_is(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create(window=NOON_TO_ONE)
        office.begin()
        office.at("2026-11-21 18:00").update(made, window={"start_time": "12:00", "end_time": "20:00"})
        assert office.windows(made, "past") == ["11-21 12:00 to 11-21 13:00"]
        assert office.windows(made)[0] == "11-22 12:00 to 11-22 20:00"
        assert office.begin() == 0

    def test_begins_at_once_what_it_opens_now(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create(recurrence=once("2026-12-24"))
        office.update(made, recurrence=once("2026-11-21"), window={"start_time": "09:00", "end_time": "18:00"})
        assert office.begin() == 1
        assert office.windows(made, "active") == ["11-21 09:00 to 11-21 18:00"]
        assert not office.rows(made)[0].late

    def test_keeps_a_window_that_is_due_from_beginning(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create(recurrence=once("2026-11-21"))
        office.at("2026-11-21 22:00").update(made, recurrence=once("2026-11-22"))
        assert office.begin() == 0
        assert office.windows(made) == ["11-22 22:00 to 11-23 06:00"]

    def test_of_the_zone_moves_the_windows(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create(recurrence=once("2026-11-22"))
        office.update(made, timezone="Asia/Kolkata")
        assert office.windows(made) == ["11-22 16:30 to 11-23 00:30"]

    def test_of_the_name_alone_plans_nothing(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create()
        office.at("2026-11-21 13:00").update(made, name="Late nights")
        assert office.schedule(made).planned_until == utc("2026-11-21 12:00") + HORIZON

    def test_that_disables_leaves_nothing_planned_and_the_active_window_in_force(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create()
        office.at("2026-11-21 22:00").begin()
        office.update(made, enabled=False)
        assert office.windows(made) == []
        assert office.windows(made, "active") == ["11-21 22:00 to 11-22 06:00"]
        office.at("2026-11-22 12:00").update(made, enabled=True)
        assert office.windows(made)[0] == "11-22 22:00 to 11-23 06:00"


class TestASkip:
    def test_leaves_the_next_window_out(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create()
        office.skip_next(made)
        assert office.windows(made, "skipped") == ["11-21 22:00 to 11-22 06:00"]
        assert office.at("2026-11-21 22:00").begin() == 0
        assert office.show(made)["next_occurrence"]["starts_at"] == utc("2026-11-22 22:00")

    def test_survives_an_edit_as_long_as_the_start_agrees(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create()
        skipped = office.skip_next(made)
        office.update(made, window={"start_time": "22:00", "end_time": "07:00", "days": 1})
        assert office.windows(made, "skipped") == ["11-21 22:00 to 11-22 07:00"]
        assert office.rows(made)[0].id == skipped
        office.update(made, window={"start_time": "21:00", "end_time": "07:00", "days": 1})
        assert office.windows(made, "skipped") == []
        assert office.windows(made)[0] == "11-21 21:00 to 11-22 07:00"

    def test_survives_being_disabled_for_a_while(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create()
        office.skip_next(made)
        office.update(made, enabled=False)
        office.update(made, enabled=True)
        assert office.windows(made, "skipped") == ["11-21 22:00 to 11-22 06:00"]
        assert office.windows(made)[0] == "11-22 22:00 to 11-23 06:00"

    def test_of_a_window_that_is_open_holds_against_another_start_on_that_day(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create()
        office.skip_next(made)
        office.at("2026-11-21 23:00").update(made, window={"start_time": "21:00", "end_time": "05:00", "days": 1})
        assert office.begin() == 0

    def test_stays_when_the_plan_is_extended(self, office: Office) -> None:
        made = office.at("2026-11-21 12:00").create()
        office.skip_next(made)
        office.skip_next(made)
        assert extend_plans(office.at("2026-11-22 12:00").jobs) == 1
        assert office.windows(made, "skipped") == ["11-21 22:00 to 11-22 06:00", "11-22 22:00 to 11-23 06:00"]
