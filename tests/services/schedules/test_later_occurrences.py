"""Occurrences after those that are stored: computed, under the ids that their rows will have."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from models.schedules import OccurrenceState
from rules.errors import ServiceError
from rules.ids import new_id
from services.core.pagination import Page
from services.schedules.later_occurrences import MAX_AHEAD, occurrence_id
from services.schedules.month_calendar import MAX_PER_DAY, calendar_of
from services.schedules.occurrences import OccurrenceFilters, list_occurrences
from services.schedules.plans import extend_plans
from services.schedules.previews import preview_saved
from services.schedules.schedule_filters import ScheduleFilters
from tests.harness.concurrency import at_once
from tests.services.schedules.conftest import NIGHTS, ScheduleFixture, utc

NOW = "2026-11-21 12:00"
NOON = {"start_time": "12:00", "end_time": "13:00"}
FRIDAYS = {"frequency": "weekly", "by_day": ["FR"], "start_date": "2026-01-02"}
GAP = {"start_time": "01:10", "end_time": "01:50"}
"""A window that London's clocks skip on the last Sunday of March."""


def page(schedules: ScheduleFixture, cursor: str | None = None, limit: int = 100, **filters: Any) -> Page:
    with schedules.uow_factory.open(schedules.caller) as uow:
        return list_occurrences(uow, OccurrenceFilters(**filters), cursor, limit)


def everything(schedules: ScheduleFixture, limit: int = 100, **filters: Any) -> list[dict[str, Any]]:
    """Return all pages of a list."""
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        part = page(schedules, cursor, limit, **filters)
        found += part.data
        if (cursor := part.next_cursor) is None:
            return found


def month(schedules: ScheduleFixture, name: str, timezone: str | None = None, of: str | None = None) -> dict[str, int]:
    """Return how many occurrences each day of a month has; at most 20 are listed."""
    with schedules.uow_factory.open(schedules.caller) as uow:
        days = calendar_of(uow, name, timezone, ScheduleFilters(of))["days"]
    assert all(len(day["occurrences"]) == min(day["count"], MAX_PER_DAY) for day in days)
    assert all(day["occurrences"] == sorted(day["occurrences"], key=by_start) for day in days)
    return {str(day["date"]): day["count"] for day in days if day["count"]}


def by_start(shown: dict[str, Any]) -> tuple[datetime, str]:
    return shown["starts_at"], shown["id"]


class TestList:
    def test_list_goes_on_after_the_stored_occurrences_until_its_end(self, schedules: ScheduleFixture) -> None:
        made = schedules.at(NOW).create(window=NOON)
        found = everything(schedules, until=utc("2027-11-21 12:00"))
        assert [one["starts_at"].date() for one in found] == [
            (utc(NOW) + timedelta(days=number)).date() for number in range(365)
        ]
        assert {one["state"] for one in found} == {"planned"}
        assert len(schedules.rows(made)) == 91

    def test_later_occurrence_keeps_its_id_when_it_is_stored(self, schedules: ScheduleFixture) -> None:
        made = schedules.at(NOW).create(window=NOON)
        before = everything(schedules, until=utc("2027-06-01 00:00"))
        schedules.at("2026-12-21 12:00")
        extend_plans(schedules.jobs)
        assert len(schedules.rows(made)) == 121
        assert [row.id for row in schedules.rows(made)] == [one["id"] for one in before[:121]]
        assert everything(schedules, until=utc("2027-06-01 00:00")) == [
            one if one["starts_at"] > utc("2026-12-21 11:00") else one | {"state": "past", "missed": True}
            for one in before
        ]

    @pytest.mark.parametrize("limit", [1, 7, 100])
    def test_pages_list_stored_and_later_occurrences_once(self, schedules: ScheduleFixture, limit: int) -> None:
        schedules.at(NOW).create(recurrence=FRIDAYS, window=NOON)
        schedules.at("2026-11-22 12:00").create(recurrence=FRIDAYS, window=NOON, allow_overlap=True)
        schedules.create(recurrence={**FRIDAYS, "interval": 9}, allow_overlap=True)
        found = everything(schedules, limit, until=utc("2027-04-20 00:00"))
        assert found == sorted(found, key=by_start)
        assert len({one["id"] for one in found}) == len(found) == 2 * 21 + 2

    def test_list_without_an_end_reaches_90_days_from_its_start(self, schedules: ScheduleFixture) -> None:
        schedules.at(NOW).create(window=NOON)
        assert len(everything(schedules)) == 91
        found = everything(schedules, since=utc("2027-06-01 00:00"))
        assert (found[0]["starts_at"], len(found)) == (utc("2027-06-01 11:00"), 90)

    def test_list_ends_two_years_ahead(self, schedules: ScheduleFixture) -> None:
        schedules.at(NOW).create(recurrence=FRIDAYS, window=NOON)
        found = everything(schedules, until=utc("9999-12-31 00:00"))
        assert timedelta() <= utc(NOW) + MAX_AHEAD - found[-1]["starts_at"] < timedelta(weeks=1)
        assert everything(schedules, since=utc("2029-01-01 00:00"), until=utc("2030-01-01 00:00")) == []

    @pytest.mark.parametrize("state", [None, "planned", "skipped"])
    @pytest.mark.parametrize("until", [None, "9999-12-31 23:59"])
    def test_list_from_the_end_of_time_is_empty(
        self, schedules: ScheduleFixture, until: str | None, state: OccurrenceState | None
    ) -> None:
        schedules.at(NOW).create(timezone="Pacific/Kiritimati")
        end = None if until is None else utc(until)
        assert everything(schedules, since=utc("9999-12-31 23:58"), until=end, state=state) == []

    def test_list_has_a_long_later_window_that_reaches_into_its_range(self, schedules: ScheduleFixture) -> None:
        year = {"start_time": "00:00", "end_time": "00:00", "days": 366}
        once = {"frequency": "once", "start_date": "2028-11-01"}
        schedules.at(NOW).create(timezone="UTC", recurrence=once, window=year)
        found = everything(schedules, since=utc("2029-11-01 00:00"), until=utc("2030-01-01 00:00"))
        assert [one["starts_at"] for one in found] == [utc("2028-11-01 00:00")]

    @pytest.mark.parametrize(
        ("state", "expected"), [("planned", 1), ("active", 0), ("past", 0), ("skipped", 1), (None, 2)]
    )
    def test_list_filters_later_occurrences_by_state(
        self, schedules: ScheduleFixture, state: OccurrenceState | None, expected: int
    ) -> None:
        schedules.at(NOW).create(window=GAP)
        found = everything(schedules, state=state, since=utc("2027-03-28 00:00"), until=utc("2027-03-29 02:00"))
        assert len(found) == expected
        assert all(one["skip_reason"] == "no_such_time" for one in found if one["state"] == "skipped")

    def test_occurrence_stored_under_another_id_is_listed_once(self, schedules: ScheduleFixture) -> None:
        made = schedules.at(NOW).create(recurrence=FRIDAYS, window=NOON)
        row, *_ = schedules.rows(made)
        start, row.id = row.starts_at, new_id("occ")
        schedules.session.commit()
        schedules.update(made, reason="No release team on Fridays", window={**NOON, "end_time": "14:00"})
        first, *_ = everything(schedules, until=utc("2027-11-21 12:00"))
        assert (first["id"], first["starts_at"], first["ends_at"]) == (row.id, start, start + timedelta(hours=2))

    def test_later_occurrence_of_another_schedule_filter_is_left_out(self, schedules: ScheduleFixture) -> None:
        made = schedules.at(NOW).create(recurrence=FRIDAYS, window=NOON)
        schedules.create(allow_overlap=True)
        found = everything(
            schedules, schedule=ScheduleFilters(made), since=utc("2027-06-01 00:00"), until=utc("2027-07-01 00:00")
        )
        assert [one["id"] for one in found] == [
            occurrence_id(made, utc("2027-06-04 11:00") + timedelta(weeks=n)) for n in range(4)
        ]


class TestSkippedInAdvance:
    def test_skipped_later_window_stays_skipped_when_the_plan_reaches_it(self, schedules: ScheduleFixture) -> None:
        made = schedules.at(NOW).create(recurrence=FRIDAYS, window=NOON)
        day = utc("2027-03-05 12:00")
        schedules.skip(made, occurrence_id(made, day))
        assert [row.starts_at for row in schedules.rows(made)][-2:] == [utc("2027-02-19 12:00"), day]
        schedules.at("2027-02-01 12:00")
        extend_plans(schedules.jobs)
        assert schedules.windows(made, "skipped") == ["03-05 12:00 to 03-05 13:00"]
        assert schedules.windows(made)[3:5] == ["02-26 12:00 to 02-26 13:00", "03-12 12:00 to 03-12 13:00"]
        schedules.at("2027-03-05 12:00")
        schedules.begin()
        assert schedules.windows(made, "active") == []

    def test_skipped_window_that_comes_within_400_days_overlaps_nothing(self, schedules: ScheduleFixture) -> None:
        made = schedules.at(NOW).create(recurrence=FRIDAYS, window=NOON)
        day = utc("2028-02-04 12:00")
        schedules.skip(made, occurrence_id(made, day))
        schedules.at("2027-01-21 12:00")
        extend_plans(schedules.jobs)
        once = {"frequency": "once", "start_date": "2028-02-04"}
        schedules.create(recurrence=once, window=NOON)
        with pytest.raises(ServiceError, match="overlap"):
            schedules.create(recurrence={**once, "start_date": "2028-01-28"}, window=NOON)

    def test_preview_shows_a_skipped_later_window_in_its_place(self, schedules: ScheduleFixture) -> None:
        made = schedules.at(NOW).create(recurrence=FRIDAYS, window=NOON)
        schedules.skip(made, occurrence_id(made, utc("2027-03-05 12:00")))
        with schedules.uow_factory.open(schedules.caller) as uow:
            shown = preview_saved(uow, made, 20)["occurrences"]
        assert shown == sorted(shown, key=by_start)
        assert [one["starts_at"].date().isoformat() for one in shown if one["state"] == "skipped"] == ["2027-03-05"]
        assert len({one["id"] for one in shown}) == 20

    def test_window_is_either_skipped_or_started(self, schedules: ScheduleFixture) -> None:
        for number in range(5):
            made = schedules.at("2026-11-21 11:00").create(window=NOON, name=f"Noon {number}", allow_overlap=True)
            first = schedules.rows(made)[0].id
            schedules.at(NOW)

            def skip(made: str = made, first: str = first) -> str:
                try:
                    schedules.skip(made, first)
                except ServiceError as error:
                    return error.code
                return "skipped"

            begun, skipped = at_once(schedules.begin, skip)
            row = schedules.rows(made)[0]
            assert skipped == ("invalid_state" if row.skip_reason is None else "skipped")
            assert begun == int(row.started_at is not None) == int(row.skip_reason is None)


class TestCalendar:
    def test_calendar_shows_the_windows_of_a_later_month_on_each_of_their_days(
        self, schedules: ScheduleFixture
    ) -> None:
        schedules.at(NOW).create(recurrence=FRIDAYS, window={"start_time": "17:00", "end_time": "08:00", "days": 3})
        weekends = [(5, 8), (12, 15), (19, 22), (26, 29)]
        expected = {f"2027-11-{day:02}": 1 for first, last in weekends for day in range(first, last + 1)}
        assert month(schedules, "2027-11") == {"2027-11-01": 1, **expected}

    def test_calendar_of_the_month_where_the_plan_ends_has_no_hole(self, schedules: ScheduleFixture) -> None:
        made = schedules.at(NOW).create(window=NOON)
        assert schedules.rows(made)[-1].starts_at == utc("2027-02-19 12:00")
        assert month(schedules, "2027-02") == {f"2027-02-{day:02}": 1 for day in range(1, 29)}

    def test_calendar_lists_the_first_of_many_stored_and_later_windows(self, schedules: ScheduleFixture) -> None:
        for number in range(15):
            times = {"start_time": f"12:{number:02}", "end_time": "13:00"}
            schedules.at(NOW).create(window=times, allow_overlap=True)
        for number in range(15, 30):
            times = {"start_time": f"12:{number:02}", "end_time": "13:00"}
            schedules.at("2026-11-23 12:00").create(window=times, allow_overlap=True)
        assert month(schedules, "2027-02") == {f"2027-02-{day:02}": 30 for day in range(1, 29)}

    def test_days_of_later_windows_follow_the_given_timezone(self, schedules: ScheduleFixture) -> None:
        made = schedules.at(NOW).create(recurrence={"frequency": "once", "start_date": "2027-11-30"}, window=NOON)
        assert month(schedules, "2027-11") == {"2027-11-30": 1}
        assert month(schedules, "2027-12", "Pacific/Kiritimati") == {"2027-12-01": 1}
        assert month(schedules, "2027-12", "Pacific/Kiritimati", made) == {"2027-12-01": 1}
        other = schedules.create(recurrence={"frequency": "once", "start_date": "2028-02-01"})
        assert month(schedules, "2027-11", None, other) == {}

    def test_calendar_shows_no_windows_after_two_years(self, schedules: ScheduleFixture) -> None:
        schedules.at(NOW).create(window=NOON)
        assert list(month(schedules, "2028-11"))[-1] == "2028-11-20"
        assert month(schedules, "2028-12") == {}


def test_later_windows_across_midnight_are_those_that_get_planned(schedules: ScheduleFixture) -> None:
    """The windows of half a year, computed today, are those that are stored half a year later."""
    assert NIGHTS["timezone"] == "Europe/London"
    made = schedules.at(NOW).create()
    before = everything(schedules, since=utc("2027-05-22 00:00"), until=utc("2027-08-01 00:00"))
    schedules.at("2027-05-21 12:00")
    extend_plans(schedules.jobs)
    rows = [
        row
        for row in schedules.rows(made)
        if utc("2027-05-22 00:00") < row.ends_at and row.starts_at < utc("2027-08-01 00:00")
    ]
    assert [(row.id, row.starts_at, row.ends_at) for row in rows] == [
        (one["id"], one["starts_at"], one["ends_at"]) for one in before
    ]
